package virtual

import (
	"encoding/json"
	"fmt"
	"math"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"souk/agentd/vllmsim"
	"souk/agentd/vllmsim/kv"
	"souk/bus"
	"souk/cmd/replay"
	"souk/integration/lab/learned"
	"souk/market"
)

// numbered makes a line that makes the text of a play unique. A play is one passage of a caller through a
// dialogue. Few dialogues are played many times, and plays must not find each other's text in a cache. So
// each play has its own number, where the text begins that only this dialogue has. The numbers are mixed, so
// that those of consecutive plays do not begin alike; each digit is a token.
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
	common   int      // of these, those before the number of the play, the same in all; or everyBlock
	inSystem bool     // the number stands in the system prompt, else in the first question
	texts    [][]byte // as JSON without its quotes: of the system prompt, each question and each answer

	recorded map[string]recorded // of the one answer, by the model that gave it
	// its questions, as routers that learned read them; nil: nobody knows the texts
	asked *reading

	number int        // of a template
	chains [][]uint64 // instead of all texts: the full blocks of each turn's prompt
	role   string     // that its caller declares; "": none
}

// everyBlock is more than any prompt has: of a script with that many in common the blocks are as recorded,
// the same whoever asks.
const everyBlock = 1 << 30

type turn struct {
	prompt, output int           // tokens
	think          time.Duration // before it is asked, as recorded; 0: as the setting says
	at             time.Duration // when it is asked, as recorded: whether or not the one before was answered
}

// recorded is an answer's score, and its number of tokens.
type recorded struct {
	score  float64
	output int
}

// NewScripts prepares dialogues. shared says that all have the same system prompt.
func NewScripts(ds []replay.Dialogue, shared bool, blockSize int) []*Script {
	var out []*Script
	for _, d := range ds {
		s := &Script{system: d.System, said: d.Turns, inSystem: !shared && d.System != "",
			asked: &reading{}}
		s.texts = append(s.texts, quoted(d.System))
		var ids []uint32
		for t := range d.Turns {
			s.asked.texts = append(s.asked.texts, d.Turns[t].User)
			s.texts = append(s.texts, quoted(d.Turns[t].User), quoted(d.Turns[t].Answer))
			ids = vllmsim.ChatTokens(s.messages(0, t))
			answer := vllmsim.Tokens().Encode(nil, d.Turns[t].Answer)
			// and the token that ends it
			s.turns = append(s.turns, turn{prompt: len(ids), output: len(answer) + 1})
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

// blocksOf returns the blocks of a play's turn, and of its answer: those that its cache group shares, and its
// own. of are those of the turn before, where there was one.
func (s *Script) blocksOf(play, turn, size, group int, of []uint64) []uint64 {
	if s.chains == nil {
		if of == nil {
			of = salted(s.hashesOf(play), group)
		}
		return of
	}
	own, t := mix(uint64(play)), s.turns[turn]
	out := make([]uint64, (t.prompt+t.output)/size)
	n := copy(out, s.chains[turn])
	for i := range out {
		switch {
		case i >= n: // nobody asks for these again
			out[i] = mix(own ^ mix(uint64(turn<<20+i)))
		case i >= s.common:
			out[i] ^= own
		}
	}
	return salted(out, group)
}

// salted are the blocks of a prompt as its cache group has them: those of another group, of the same tokens,
// are others.
func salted(blocks []uint64, group int) []uint64 {
	if group > 0 {
		salt := mix(uint64(group) ^ 0x73616c74)
		for i := range blocks {
			blocks[i] ^= salt
		}
	}
	return blocks
}

// hashesOf are the blocks of a play: those that all share, and its own.
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
	Group      int // of its caller: whose blocks it can find
	Terms      Stated
	Temper     string        // the word for its terms, where callers have tempers
	Think      time.Duration // pause before it was asked; set by Setting.Questions alone

	Arrived, First, Done time.Duration // First and Done: as its caller hears them
	Engine               int           // that served it; -1: none
	Refused              bool
	Refusals             int            // how often it was told to come back, and did
	Paid                 market.Credits // by its client
	Due                  market.Credits // to its engine's owner
	Cut                  bool           // the answer ended where its agent may ask no more for it

	asked *reading // the dialogue's questions

	said *Word // by its caller; nil: its terms
	sent Offer // its engine's, when it was sent there

	believed int // tokens of the prompt that its engine was believed to hold, when it was sent there

	most   int  // tokens that its answer may have; 0: all
	own    bool // sent by the policy itself: no caller asked, and none hears of it
	script *Script
	lots   *rand.Rand // its caller's
}

// reading holds what routers that learned read of a dialogue's questions, found when the first of them asks.
type reading struct {
	texts []string
	once  sync.Once
	all   []learned.Question
}

// Read returns what routers that learned read of the question; nil where nobody knows its text.
func (r *Request) Read() *learned.Question {
	x := r.asked
	if x == nil {
		return nil
	}
	x.once.Do(func() {
		for _, text := range x.texts {
			x.all = append(x.all, learned.Reader().Read(text))
		}
	})
	if r.Turn >= len(x.all) {
		return nil
	}
	return &x.all[r.Turn]
}

// Stand has routers that learned read another question in place of the request's own.
func (r *Request) Stand(q learned.Question) {
	all := make([]learned.Question, r.Turn+1)
	all[r.Turn] = q
	r.asked = &reading{all: all}
}

// Stated holds the terms of a caller.
type Stated struct {
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
		Role    string     `json:"role,omitempty"`
		Terms   *bus.Terms `json:"terms,omitempty"`
	}
	b.Task, b.Role = fmt.Sprintf("t-%d", r.ID), r.script.role
	if named {
		b.Session = fmt.Sprintf("play-%d", r.Play)
	}
	if t := r.stated(); t.Told {
		patience := t.Patience.Milliseconds()
		b.Terms = &bus.Terms{Worth: &t.Worth, Delta: &t.Delta, PatienceMS: &patience}
	}
	souk, err := json.Marshal(&b)
	if err != nil {
		panic(fmt.Sprintf("virtual: a body of texts and numbers is not JSON: %v", err))
	}
	s := r.script
	if s.chains != nil { // whose texts nobody knows
		return fmt.Appendf(nil, `{"messages":[{"role":"user","content":"play %d"}],"stream":true,"souk":%s}`,
			r.Play, souk)
	}
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

// prompt makes the door's reading of a prompt of which only the blocks are known: two bytes a token, as the
// longest of a trace have more tokens than a prompt may have bytes at four, and a prefix to the end of each
// block.
func (r *Request) prompt(size int) bus.Prompt {
	const bytes = 2
	p := bus.Prompt{Bytes: bytes * r.Prompt, Messages: 1, Tokens: r.Prompt, Text: bytes * r.Prompt, Pieces: 1}
	for i, h := range r.script.blocksOf(r.Play, r.Turn, size, r.Group, nil)[:r.Prompt/size] {
		p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: bytes * size * (i + 1), Hash: h})
	}
	if r.Prompt%size > 0 {
		p.Prefixes = append(p.Prefixes, bus.PrefixHash{Bytes: p.Bytes, Hash: mix(uint64(r.ID) ^ 1<<63)})
	}
	return p
}

// quoted is a text in JSON, without its quotes.
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
func spread(random *rand.Rand) Stated {
	worth, err := market.Quantise(0.001 * math.Pow(100, random.Float64()))
	if err != nil {
		panic("virtual: a worth of the table is no amount")
	}
	return Stated{market.Terms{Worth: worth, Delta: 0.5, Patience: 3 * time.Second}, true}
}

// passages returns that many bytes of the dialogues' own system prompts, beginning with the i-th.
func passages(ds []replay.Dialogue, i, bytes int) string {
	var b strings.Builder
	for n := 0; b.Len() < bytes && n < len(ds); n++ {
		b.WriteString(ds[(i+n)%len(ds)].System)
	}
	return strings.ToValidUTF8(b.String()[:min(b.Len(), bytes)], "")
}
