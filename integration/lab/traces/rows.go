package traces

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"strings"

	"souk/cmd/replay"
)

// MooncakeBlock is the number of tokens in a block of Mooncake's traces.
const MooncakeBlock = 512

// maxMS is the latest moment of a trace, in ms: a year.
const maxMS = 366 * 24 * 3600 * 1000

// parse decodes a row. A field that nobody knows is an error, so that nothing of a trace is passed over.
func parse(row []byte, into any, has string) error {
	d := json.NewDecoder(bytes.NewReader(row))
	d.DisallowUnknownFields()
	if err := d.Decode(into); err != nil {
		if errors.Is(err, io.ErrUnexpectedEOF) {
			return errors.New("JSON ends too early: one row stands on one line")
		}
		if said := strings.TrimPrefix(err.Error(), "json: "); strings.HasPrefix(said, "unknown field") {
			return fmt.Errorf("%s: a row has %s", said, has)
		}
		return err
	}
	if _, err := d.Token(); err != io.EOF {
		return errors.New("more than one JSON value on the line")
	}
	return nil
}

// mooncake puts requests into sessions: one goes on from the last whose whole prompt it begins with, but for
// its last block.
func mooncake(t *Trace, lines *replay.Lines, _ string) error {
	t.Timed = true
	ends := map[int]int{} // session by the last full block of its last prompt
	last := 0.0
	return t.each(lines, func(line []byte) error {
		var r struct {
			At  float64 `json:"timestamp"`
			In  int     `json:"input_length"`
			Out int     `json:"output_length"`
			IDs []int   `json:"hash_ids"`
		}
		if err := parse(line, &r, "timestamp, input_length, output_length and hash_ids"); err != nil {
			return err
		}
		why := cmp.Or(when(r.At, last), playable(r.In, r.Out), blocksFit(r.IDs, r.In, MooncakeBlock))
		if why != "" {
			t.leave(why, lines.Number)
			return nil
		}
		last = r.At
		session := len(t.Chains)
		for k := len(r.IDs) - 1; k >= 1; k-- { // the first block is everybody's
			if s, ok := ends[r.IDs[k]]; ok {
				session = s
				delete(ends, r.IDs[k])
				break
			}
		}
		if session == len(t.Chains) {
			t.Chains = append(t.Chains,
				Chain{ID: fmt.Sprint(session), Block: MooncakeBlock, Timed: true})
		}
		c := &t.Chains[session]
		c.Turns = append(c.Turns, ranges([]int{int(math.Round(r.At)), r.In, r.Out}, r.IDs))
		if full := min(r.In/MooncakeBlock, len(r.IDs)); full >= 2 {
			ends[r.IDs[full-1]] = session
		}
		return nil
	})
}

// when says why a request cannot be asked at a time, in ms, after one at another.
func when(at, last float64) string {
	switch {
	case !(at >= 0 && at <= maxMS):
		return "its time is before the beginning of the trace, or more than a year after it"
	case at < last:
		return "its time is before that of the row above it"
	}
	return ""
}

// blocksFit says why these cannot be the blocks of a prompt.
func blocksFit(ids []int, in, block int) string {
	if len(ids) > (in+block-1)/block {
		return "it has more blocks than its prompt has room for"
	}
	for _, id := range ids {
		if id < 0 {
			return "the number of a block is negative"
		}
	}
	return ""
}

// ranges appends numbers of blocks to a turn, as first and count.
func ranges(turn, ids []int) []int {
	for k, id := range ids {
		if last := len(turn) - 2; k > 0 && turn[last]+turn[last+1] == id {
			turn[last+1]++
		} else {
			turn = append(turn, id, 1)
		}
	}
	return turn
}

// kvCacheTester reads sessions whose blocks are their own. A sub-agent has a context of its own, of which the
// session knows the answer alone: it is left out.
func kvCacheTester(t *Trace, lines *replay.Lines, _ string) error {
	t.Paused = true
	return t.each(lines, func(line []byte) error {
		var s struct {
			ID       string            `json:"id"`
			Block    int               `json:"block_size"`
			Requests []json.RawMessage `json:"requests"`

			Models, Totals any
			Scope          any `json:"hash_id_scope"`
			Tools          any `json:"tool_tokens"`
			System         any `json:"system_tokens"`
		}
		if err := parse(line, &s, "id, block_size and requests"); err != nil {
			return err
		}
		if s.Block < 1 || s.Block > MaxTokens {
			return fmt.Errorf("block_size: %d, want 1 to %d", s.Block, MaxTokens)
		}
		c := Chain{ID: s.ID, Block: s.Block}
		for i, raw := range s.Requests {
			turn, why, err := call(raw, s.Block)
			if err != nil {
				return fmt.Errorf("requests[%d]: %w", i, err)
			}
			if why != "" {
				t.leave(why, lines.Number)
				continue
			}
			c.Turns = append(c.Turns, turn)
		}
		if len(c.Turns) > 0 {
			t.Chains = append(t.Chains, c)
		}
		return nil
	})
}

// call is a request of a session, or why it is left out.
func call(raw json.RawMessage, block int) (turn []int, why string, err error) {
	var kind struct {
		Type string `json:"type"`
	}
	if json.Unmarshal(raw, &kind) == nil && kind.Type == "subagent" {
		return nil, "requests of a sub-agent, whose context is its own", nil
	}
	var r struct {
		At     float64  `json:"t"`
		In     int      `json:"in"`
		Out    int      `json:"out"`
		Think  float64  `json:"think_time"`
		Ranges [][2]int `json:"hash_ranges"`
		IDs    []int    `json:"hash_ids"`

		Type, Model, Stop, TTFT any
		InTypes                 any `json:"input_types"`
		OutTypes                any `json:"output_types"`
		Took                    any `json:"api_time"`
	}
	if err := parse(raw, &r, "t, in, out, think_time, hash_ids or hash_ranges"); err != nil {
		return nil, "", err
	}
	turn = ranges([]int{0, r.In, r.Out}, r.IDs)
	blocks := len(r.IDs)
	for _, x := range r.Ranges {
		if x[0] < 0 || x[1] < 1 || x[1] > MaxTokens || x[0] > math.MaxInt32 {
			return nil, "a range of blocks is negative, empty or too long", nil
		}
		turn, blocks = append(turn, x[0], x[1]), blocks+x[1]
	}
	why = cmp.Or(when(1000*r.Think, 0), playable(r.In, r.Out), blocksFit(r.IDs, r.In, block))
	if why == "" && blocks > (r.In+block-1)/block {
		why = "it has more blocks than its prompt has room for"
	}
	turn[0] = int(math.Round(1000 * r.Think))
	return turn, why, nil
}
