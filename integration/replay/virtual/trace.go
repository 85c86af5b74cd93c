package virtual

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"time"

	"souk/bus"
	"souk/integration/replay"
	"souk/integration/vllmsim"
	"souk/integration/vllmsim/kv"
	"souk/market"
)

// numbered is a mark that makes the text of a play unique. A play is one passage of a caller through a
// dialogue. Few dialogues are played many times, and plays must not find each other's text in a cache. So
// each play has its own number, where the text begins that only this dialogue has. The numbers are
// mixed, so that those of consecutive plays do not begin alike; each digit is a token.
func numbered(play int) string {
	digits := strings.Split(fmt.Sprintf("%010d", mix(uint64(play))%1e10), "")
	return "This is conversation number " + strings.Join(digits, " ") + ".\n"
}

// Script is a dialogue with its recorded answers, prepared for asking: its lengths in tokens, the blocks that
// an engine's cache would cut it into, and its messages.
type Script struct {
	system   string
	said     []replay.Turn
	turns    []turn
	hashes   []uint64 // of full blocks, of play 0
	common   int      // how many of these come before the number of the play: they are the same in all plays
	inSystem bool     // the number is in the system prompt; else it is in the first question
	texts    [][]byte // the system prompt, then each question and answer, as JSON strings without quotes
}

type turn struct{ prompt, output int } // tokens

// NewScripts prepares dialogues. shared says that all have the same system prompt.
func NewScripts(ds []replay.Dialogue, shared bool, blockSize int) []*Script {
	var out []*Script
	for _, d := range ds {
		s := &Script{system: d.System, said: d.Turns, inSystem: !shared && d.System != ""}
		s.texts = append(s.texts, quoted(d.System))
		var ids []uint32
		for t := range d.Turns {
			s.texts = append(s.texts, quoted(d.Turns[t].User), quoted(d.Turns[t].Answer))
			ids = vllmsim.ChatTokens(s.messages(0, t))
			answer := vllmsim.Tokens().Encode(nil, d.Turns[t].Answer)
			s.turns = append(s.turns, turn{len(ids), len(answer) + 1}) // and the token that ends it
			ids = append(ids, answer...)
		}
		s.hashes = hashes(ids, blockSize)
		if shared {
			one, other := vllmsim.ChatTokens(s.messages(1, 0)), vllmsim.ChatTokens(s.messages(2, 0))
			same := 0
			for one[same] == other[same] {
				same++
			}
			s.common = same / blockSize
		}
		out = append(out, s)
	}
	return out
}

func hashes(ids []uint32, size int) (out []uint64) {
	parent := kv.Root("", "")
	for i := 0; i+size <= len(ids); i += size {
		parent = kv.Chain(parent, ids[i:i+size])
		out = append(out, parent)
	}
	return out
}

// messages are the prompt of a play at a turn.
func (s *Script) messages(play, turn int) (out []vllmsim.Message) {
	number := numbered(play)
	switch {
	case s.inSystem:
		out = append(out, vllmsim.Message{Role: "system", Content: number + s.system})
	case s.system != "":
		out = append(out, vllmsim.Message{Role: "system", Content: s.system})
	}
	for i, t := range s.said[:turn+1] {
		question := t.User
		if i == 0 && !s.inSystem {
			question = number + question
		}
		out = append(out, vllmsim.Message{Role: "user", Content: question})
		if i < turn {
			out = append(out, vllmsim.Message{Role: "assistant", Content: t.Answer})
		}
	}
	return out
}

// hashesOf are the hashes of a play's blocks: those that all plays share, and its own.
func (s *Script) hashesOf(play int) []uint64 {
	out := make([]uint64, len(s.hashes))
	copy(out, s.hashes[:s.common])
	own := mix(uint64(play))
	for i := s.common; i < len(out); i++ {
		out[i] = s.hashes[i] ^ own
	}
	return out
}

// mix hashes a number to 64 bits (splitmix64).
func mix(x uint64) uint64 {
	x += 0x9e3779b97f4a7c15
	x = (x ^ x>>30) * 0xbf58476d1ce4e5b9
	x = (x ^ x>>27) * 0x94d049bb133111eb
	return x ^ x>>31
}

// Request is one question of a play, with its history.
type Request struct {
	Job
	ID, Caller int
	Play, Turn int
	Terms      Terms
	Think      time.Duration // pause before it was asked; set by Setting.Questions alone

	Arrived, First, Done time.Duration // First and Done are when its caller hears them
	Engine               int           // that served it; -1: none
	Refused              bool

	own    bool // sent by the policy itself: no caller asked, and none hears of it
	script *Script
	lots   *rand.Rand // its caller's
}

// Terms say what an answer is worth to its caller.
type Terms struct {
	market.Terms
	Told bool // the caller states them; else they are the market's defaults
}

// Messages are the prompt as messages.
func (r *Request) Messages() []vllmsim.Message { return r.script.messages(r.Play, r.Turn) }

// Answer is the recorded answer.
func (r *Request) Answer() string { return r.script.said[r.Turn].Answer }

// Body is the request as its caller writes it; named says whether it names its session.
func (r *Request) Body(named bool) []byte {
	var b struct {
		Task    string     `json:"task"`
		Session string     `json:"session,omitempty"`
		Terms   *bus.Terms `json:"terms,omitempty"`
	}
	b.Task = fmt.Sprintf("t-%d", r.ID)
	if named {
		b.Session = fmt.Sprintf("play-%d", r.Play)
	}
	if r.Terms.Told {
		patience := r.Terms.Patience.Milliseconds()
		b.Terms = &bus.Terms{Worth: &r.Terms.Worth, Delta: &r.Terms.Delta, PatienceMS: &patience}
	}
	souk, err := json.Marshal(&b)
	if err != nil {
		panic(fmt.Sprintf("virtual: a body of texts and numbers is not JSON: %v", err))
	}
	s := r.script
	size := 256
	for _, text := range s.texts[:2*r.Turn+2] {
		size += len(text) + 40
	}
	data := append(make([]byte, 0, size), `{"messages":[`...)
	number := quoted(numbered(r.Play))
	say := func(role string, number, text []byte) {
		if data[len(data)-1] == '}' {
			data = append(data, ',')
		}
		data = append(append(append(data, `{"role":"`...), role...), `","content":"`...)
		data = append(append(append(data, number...), text...), `"}`...)
	}
	switch {
	case s.inSystem:
		say("system", number, s.texts[0])
		number = nil
	case s.system != "":
		say("system", nil, s.texts[0])
	}
	for turn := range r.Turn + 1 {
		if turn > 0 {
			say("assistant", nil, s.texts[2*turn])
			number = nil
		}
		say("user", number, s.texts[2*turn+1])
	}
	return append(append(append(data, `],"stream":true,"souk":`...), souk...), '}')
}

// quoted is a text as a JSON string, without the quotes.
func quoted(text string) []byte {
	data, err := json.Marshal(text)
	if err != nil {
		panic(fmt.Sprintf("virtual: a text is not JSON: %v", err))
	}
	return data[1 : len(data)-1]
}

// Blocks are the hashes of the prompt's full blocks; the prompt's last token is never among them.
func (r *Request) Blocks(size int) []uint64 { return r.Hashes[:(r.Prompt-1)/size] }

// spread are terms whose worth is drawn from 1 to 100 thousandths of a credit.
func spread(random *rand.Rand) Terms {
	worth, err := market.Quantise(0.001 * math.Pow(100, random.Float64()))
	if err != nil {
		panic("virtual: a worth of the table is no amount")
	}
	return Terms{market.Terms{Worth: worth, Delta: 0.5, Patience: 3 * time.Second}, true}
}

// passages is that many bytes of the dialogues' own system prompts, beginning with the i-th.
func passages(ds []replay.Dialogue, i, bytes int) string {
	var b strings.Builder
	for n := 0; b.Len() < bytes && n < len(ds); n++ {
		b.WriteString(ds[(i+n)%len(ds)].System)
	}
	return strings.ToValidUTF8(b.String()[:min(b.Len(), bytes)], "")
}
