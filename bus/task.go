package bus

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"math"

	"github.com/cespare/xxhash/v2"

	"souk/market"
)

// Task kinds: which OpenAI endpoint the body belongs to.
const (
	KindChat       = "chat"       // /v1/chat/completions
	KindCompletion = "completion" // /v1/completions
	KindEmbedding  = "embedding"  // /v1/embeddings
	KindRerank     = "rerank"     // /v1/rerank
)

// Task is one client request: an OpenAI body plus terms.
//
// As JSON the request is the OpenAI body itself with one more member, "souk", that holds the fields
// below; as msgpack it is this struct. Client is always taken from the subject, whatever the body says.
type Task struct {
	Client string `json:"-" msgpack:"client,omitempty" want:"id?"`
	// unique per client; made by the door when empty
	ID string `json:"task,omitempty" msgpack:"task,omitempty" want:"id?"`
	// one of the kinds above; from the body when empty
	Kind string `json:"kind,omitempty" msgpack:"kind,omitempty" want:"kind"`
	// the OpenAI body as given, at most MaxBody, or what a larger one is
	Body  json.RawMessage `json:"-" msgpack:"body,omitempty"`
	Large *Large          `json:"-" msgpack:"large,omitempty"`
	// chunks on the reply subject, else one whole Result
	Stream bool `json:"-" msgpack:"stream,omitempty"`
	// its reader wants the whole answer at once: what follows the first chunk need not come at once
	Whole bool `json:"-" msgpack:"whole,omitempty"`
	// and takes the last of its text in the end frame: what came within a moment of the end, often all of it,
	// for then the first chunk need not come at once either
	Tail bool `json:"-" msgpack:"tail,omitempty"`
	// names the answer to its reader among all that it reads; the task's id where it is empty
	Token string `json:"reply_token,omitempty" msgpack:"token,omitempty" want:"id?"`

	Terms Terms `json:"terms,omitzero" msgpack:"terms,omitempty"`
	// Unix milliseconds; after it the task is worth nothing. 0: the hub's default
	DeadlineMS int64  `json:"deadline_ms,omitempty" msgpack:"deadline_ms,omitempty" want:"unix"`
	Session    string `json:"session,omitempty" msgpack:"session,omitempty" want:"id?"`
	// this turn is the session's last: see [SessionEnd]
	SessionEnd bool `json:"session_end,omitempty" msgpack:"session_end,omitempty"`
	// hints of what the client does next, checked against what comes and never paid for: the pause until the
	// session's next turn; another session of the client's that began this one; and the role of the client's,
	// or of a session of its, that comes next
	BackMS int64  `json:"back_ms,omitempty" msgpack:"back_ms,omitempty" want:"ms"`
	Parent string `json:"parent,omitempty" msgpack:"parent,omitempty" want:"id?"`
	Next   string `json:"next,omitempty" msgpack:"next,omitempty"`
	Turn   int    `json:"turn,omitempty" msgpack:"turn,omitempty" want:"turn"` // counts from 0
	// the caller's part in a workflow
	Role   string `json:"role,omitempty" msgpack:"role,omitempty"`
	Source string `json:"source,omitempty" msgpack:"source,omitempty"`
	Run    string `json:"run,omitempty" msgpack:"run,omitempty"`
	// the hub named by an earlier Result of the session; honoured while it has room
	Hub      string `json:"hub,omitempty" msgpack:"hub,omitempty" want:"id?"`
	Failover string `json:"failover,omitempty" msgpack:"failover,omitempty" want:"failover"` // "" or "off"
	// What tells it from the client's others in journals, where it is nobody's else: by a gateway, the id of
	// its request, "" where the task's own says that; the API key that it came with; and what [Tags] makes.
	Request string `json:"-" msgpack:"request,omitempty" want:"tags"`
	Key     string `json:"-" msgpack:"key,omitempty" want:"id?"`
	Tags    string `json:"-" msgpack:"tags,omitempty" want:"tags"`
	// 0 is the first; the hub counts
	Attempt int `json:"-" msgpack:"attempt,omitempty" want:"attempt"`
	// the answer broke off: go on from here
	Resume *Resume `json:"-" msgpack:"resume,omitempty"`
	// for doors alone: the first door is silent, so a hub may have the task. AgainUnheard or AgainHeard
	Again int `json:"-" msgpack:"again,omitempty" want:"again"`
	// beside Again, how long ago its reader first sent it, and when, by its clock; 0: the reader does not say
	AgeMS   int64 `json:"-" msgpack:"age_ms,omitempty" want:"ms"`
	FirstMS int64 `json:"-" msgpack:"first_ms,omitempty" want:"unix"`
	// of a door, where the task's reader may ask another one; nil: its reader may not
	LastStatus *LastStatus `json:"-" msgpack:"last_status,omitempty"`

	// Filled in by the door; whatever a client puts here is overwritten.
	Model     string `json:"-" msgpack:"model,omitempty"`              // "" = any model of the hub
	Domain    string `json:"-" msgpack:"domain,omitempty" want:"id?"`  // the classifier's label
	Reply     string `json:"-" msgpack:"reply,omitempty" want:"reply"` // where the answer goes: see ReplyTo
	MaxTokens int    `json:"-" msgpack:"max_tokens,omitempty"`         // of the body; 0 = none given
	Prompt    Prompt `json:"-" msgpack:"prompt,omitempty"`
	Declared  bool   `json:"-" msgpack:"declared,omitempty"` // Role is the client's word, and not derived
	// of the engine's cache, see PrefixKeys.SaltedBy; until a door makes that, the hash of the body's
	// cache_salt
	Salt string `json:"-" msgpack:"salt,omitempty" want:"id?"`
	// for the treasury: the door's statement of what the client's tasks may cost, this one included
	Voucher Voucher `json:"-" msgpack:"voucher,omitempty"`
	Trace   Trace   `json:"-" msgpack:"-"` // travels in headers

	// Set by the receiver: who sent this request, and where the answer to it goes.
	Door  string `json:"-" msgpack:"-"`
	Inbox string `json:"-" msgpack:"-"`
}

// Content hashes everything of a request but when, where and how often it was sent: two requests with one id
// are the same if it is. Journals keep it with holds.
func (t *Task) Content() (d [16]byte) {
	h := sha256.New()
	var n [8]byte
	num := func(v uint64) {
		binary.LittleEndian.PutUint64(n[:], v)
		h.Write(n[:])
	}
	str := func(s string) {
		num(uint64(len(s)))
		h.Write([]byte(s))
	}
	num(uint64(len(t.Body)))
	h.Write(t.Body)
	if t.Large != nil {
		h.Write(t.Large.SHA256)
	}
	str(t.Kind)
	str(t.Model)
	str(t.Session)
	str(t.Role)
	num(uint64(t.Turn))
	num(uint64(t.MaxTokens))
	if t.Stream {
		num(1)
	}
	for _, c := range []*market.Credits{t.Terms.Worth, t.Terms.MaxPrice} {
		if c != nil {
			num(uint64(*c) + 1)
		} else {
			num(0)
		}
	}
	if p := t.Terms.PatienceMS; p != nil {
		num(uint64(*p) + 1)
	} else {
		num(0)
	}
	if p := t.Terms.Delta; p != nil {
		num(math.Float64bits(*p))
	}
	copy(d[:], h.Sum(nil))
	return d
}

// What a reader has heard of a task that it asks for once more. Either way the hub that has it is sought; one
// of which nobody was heard, and that no hub knows, is placed anew.
const (
	AgainUnheard = 1
	AgainHeard   = 2
)

// LastStatus is the last status of a hub that a door had heard when it last knew that nobody else had the
// task that it sends there. The hub knows when it said the next one, and so, by its own clock alone, for how
// long the door may have missed that somebody has. Zero: the door had heard none.
type LastStatus struct {
	Epoch int64  `msgpack:"e,omitempty"`
	Seq   uint64 `msgpack:"s,omitempty"`
}

// Resume holds the delivered part of an answer that broke off. It comes with the task as it was first sent,
// so that another agent of the same model can go on: from zero where nothing was delivered.
type Resume struct {
	Agent  string   `msgpack:"agent" want:"id"`                    // that broke off
	Seq    uint64   `msgpack:"seq,omitempty"`                      // number of the next chunk
	Tokens []uint32 `msgpack:"tokens,omitempty" want:"most:16384"` // output tokens delivered
	Text   string   `msgpack:"text,omitempty" want:"any"`          // and their text

	// Likewise, what parsers of the engine's made of the tokens.
	Reasoning string   `msgpack:"reasoning,omitempty" want:"any"`
	Calls     []string `msgpack:"calls,omitempty" want:"any"` // ids of the tool calls that have begun
	// only who parses answers can tell how it goes on, as the door says of a body that came in pieces
	Parses bool `msgpack:"parses,omitempty"`
}

// Prompt describes a prompt to a hub, which does not read it.
type Prompt struct {
	Bytes    int          `msgpack:"bytes" want:"canonical"`   // of canonical text: roles, contents, tools
	Messages int          `msgpack:"messages" want:"messages"` // 1 for a completion
	Tokens   int          `msgpack:"tokens"`                   // estimate
	AtLeast  int          `msgpack:"at_least,omitempty"`       // that its longest text has for sure
	Prefixes []PrefixHash `msgpack:"prefixes,omitempty" want:"any"`
	// of the same prefixes, DigestBytes of each text's SHA-256: only where it was read, until it is named
	Digests []byte `msgpack:"-"`
	// Hashes of the same prefixes under the key before, or under that which comes next: for some time around
	// when that is due. Where a text is known by the former ones, it is to be known by its own from now on;
	// where it is by the next ones, the prompt means these.
	Former Hashes `msgpack:"former,omitempty"`
	Next   Hashes `msgpack:"next,omitempty"`

	// What bounds its tokens, see [Template.Bound].
	// bytes of it, with room for how a template may write them; 0: not counted
	Text   int `msgpack:"text,omitempty"`
	Wide   int `msgpack:"wide,omitempty"`   // of them, bytes beyond ASCII
	Pieces int `msgpack:"pieces,omitempty"` // messages, parts, tools, calls: a template adds to each
	Tools  int `msgpack:"tools,omitempty"`
	// whether that says it: LooseNone, LooseCounted or LooseMedia
	Loose int `msgpack:"loose,omitempty" want:"loose"`

	// where the tools and the system messages before all else end, in bytes, as one of the prefixes does; 0:
	// there are none
	SystemBoundary int `msgpack:"system_boundary,omitempty"`
}

// PrefixHash is the chained hash of a prompt's cache group and of a prefix of its canonical text, under a key
// that doors alone have: see PrefixKeys. A prefix ends with every message and every PrefixEvery bytes; two
// prompts of a group share the text up to the end of their last common one.
type PrefixHash struct {
	Bytes int    `msgpack:"b"`
	Hash  uint64 `msgpack:"h"`
}

// Terms says what a task is worth to its client (mechanism.md 1). A nil field takes the hub's default; a
// zero is refused, for it would mean that nothing is ever bought. In JSON, credits are decimal numbers of
// whole credits ("worth": 0.0025), read exactly.
type Terms struct {
	Worth *market.Credits `json:"worth,omitempty" msgpack:"worth,omitempty"` // > 0
	// > 0, at most 1
	Delta      *float64 `json:"delta,omitempty" msgpack:"delta,omitempty"`
	PatienceMS *int64   `json:"patience_ms,omitempty" msgpack:"patience_ms,omitempty"` // > 0
	// > 0: most the client ever pays; default worth
	MaxPrice *market.Credits `json:"max_price,omitempty" msgpack:"max_price,omitempty"`
}

// Cancel is a client's wish to end its task, said by itself or by who sent the task for it.
type Cancel struct {
	Client string `json:"client,omitempty" msgpack:"client,omitempty" want:"id?"` // empty: the sender
	Task   string `json:"task" msgpack:"task" want:"id"`
	Sender string `json:"-" msgpack:"-"` // from the subject
}

// Feedback is a client's judgement of an answer.
type Feedback struct {
	Client  string  `json:"client,omitempty" msgpack:"client,omitempty" want:"id?"`
	Task    string  `json:"task" msgpack:"task" want:"id"`
	Quality float64 `json:"quality" msgpack:"quality"` // 0 to 1
	// by a reference answer: a hub believes that of those alone who its operator names as judges
	Gold   bool   `json:"gold,omitempty" msgpack:"gold,omitempty"`
	Sender string `json:"-" msgpack:"-"` // from the subject
}

// Carried returns how many tokens of the answer come from an agent that failed.
func (t *Task) Carried() int {
	if t == nil || t.Resume == nil {
		return 0
	}
	return len(t.Resume.Tokens)
}

// ToolKey is the key of a tool's name: no text, and what every form of number has room for. 0 is no tool.
func ToolKey(name string) uint64 {
	if name == "" {
		return 0
	}
	return max(1, xxhash.Sum64String(name)>>2)
}

// SessionKey is the key of a client's session in summaries: the same at hubs and agents, and no text. Clients
// choose the names of their sessions, so it is of a hash of which nobody can reckon backwards what name of
// its own has another's key. 0 is no session.
func SessionKey(client, session string) uint64 {
	if session == "" {
		return 0
	}
	var room [256]byte
	name := append(append(append(room[:0], client...), 0), session...)
	sum := sha256.Sum256(name)
	return max(1, binary.BigEndian.Uint64(sum[:]))
}

// RoleKey is the key of the task's role; 0: it has none, or there is no task.
func (t *Task) RoleKey() uint64 {
	if t == nil {
		return 0
	}
	declared := ""
	if t.Declared {
		declared = t.Role
	}
	return RoleKey(t.Client, declared, &t.Prompt)
}

// RoleKey is the role of a task: what its client declared, among that client's own, or else the text that its
// prompt begins with, tools and system prompt, whoever of its cache group sends it.
func RoleKey(client, declared string, p *Prompt) uint64 {
	if declared != "" {
		return SessionKey(client, "\x00"+declared) // as no session is called
	}
	if p.SystemBoundary == 0 {
		return 0
	}
	for i := range p.Prefixes {
		if p.Prefixes[i].Bytes == p.SystemBoundary {
			return max(1, p.Prefixes[i].Hash)
		}
	}
	return 0
}
