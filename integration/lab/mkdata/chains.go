package main

import (
	"bufio"
	"compress/gzip"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"slices"

	"souk/cmd/replay"
	"souk/integration/lab/traces"
)

// chains reads a trace that says of each request which blocks its prompt consists of, and not what text.
func chains(file, format string, n int) ([]traces.Chain, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	z, err := gzip.NewReader(f)
	if err != nil {
		return nil, err
	}
	lines := bufio.NewScanner(z)
	lines.Buffer(nil, replay.MaxLine)
	if format == "mooncake" {
		return mooncake(lines, n)
	}
	var all []traces.Chain
	for lines.Scan() {
		var in struct {
			ID       string `json:"id"`
			Block    int    `json:"block_size"`
			Requests []struct {
				Type   string   `json:"type"`
				In     int      `json:"in"`
				Out    int      `json:"out"`
				Think  float64  `json:"think_time"`
				Ranges [][2]int `json:"hash_ranges"`
			} `json:"requests"`
		}
		if err := json.Unmarshal(lines.Bytes(), &in); err != nil {
			return nil, err
		}
		c := traces.Chain{ID: in.ID, Block: in.Block}
		for _, r := range in.Requests {
			if r.Type == "subagent" { // which has a context of its own
				continue
			}
			turn := []int{int(math.Round(r.Think * 1000)), r.In, r.Out}
			for _, x := range r.Ranges {
				turn = append(turn, x[0], x[1])
			}
			c.Turns = append(c.Turns, turn)
		}
		if len(c.Turns) > 1 {
			all = append(all, c)
		}
	}
	slices.SortFunc(all, func(a, b traces.Chain) int { return compare(hash(a.ID), hash(b.ID)) })
	return all[:min(n, len(all))], lines.Err()
}

func compare(a, b uint64) int {
	switch {
	case a < b:
		return -1
	case a > b:
		return 1
	}
	return 0
}

// mooncake puts the first n requests into sessions: one goes on from the last whose whole prompt it begins
// with, but for its last block.
func mooncake(lines *bufio.Scanner, n int) (all []traces.Chain, err error) {
	ends := map[int]int{} // session by the last full block of its last prompt
	for i := 0; i < n && lines.Scan(); i++ {
		var r struct {
			At  int   `json:"timestamp"`
			In  int   `json:"input_length"`
			Out int   `json:"output_length"`
			IDs []int `json:"hash_ids"`
		}
		if err := json.Unmarshal(lines.Bytes(), &r); err != nil {
			return nil, err
		}
		turn := []int{r.At, r.In, r.Out}
		for k, id := range r.IDs {
			if last := len(turn) - 2; k > 0 && turn[last]+turn[last+1] == id {
				turn[last+1]++
			} else {
				turn = append(turn, id, 1)
			}
		}
		session := len(all)
		for k := len(r.IDs) - 1; k >= 1; k-- { // the first block is everybody's
			if s, ok := ends[r.IDs[k]]; ok {
				session = s
				delete(ends, r.IDs[k])
				break
			}
		}
		if session == len(all) {
			all = append(all, traces.Chain{ID: fmt.Sprint(session), Block: 512, Timed: true})
		}
		all[session].Turns = append(all[session].Turns, turn)
		if full := r.In / 512; full >= 2 {
			ends[r.IDs[full-1]] = session
		}
	}
	return all, lines.Err()
}
