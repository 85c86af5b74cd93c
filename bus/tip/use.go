package tip

import (
	"cmp"

	"souk/market"
)

// Use sums up what tasks of a client came to at one hub: those of a day, a key, a model and a set of tags.
type Use struct {
	Day  int64  `msgpack:"d"`           // since 1970, UTC, by the hub's clock when they were paid
	Key  string `msgpack:"k,omitempty"` // empty: they came with none
	Tags string `msgpack:"t,omitempty"` // Rest: of more sets than are told apart
	// empty where tags are Rest
	Model  string         `msgpack:"m,omitempty"`
	Tasks  int64          `msgpack:"n"`
	Prompt int64          `msgpack:"p"` // tokens
	Cached int64          `msgpack:"c"` // of them
	Output int64          `msgpack:"o"`
	Cost   market.Credits `msgpack:"cost" want:"sum"` // of Paid, what agents are due
	Paid   market.Credits `msgpack:"paid" want:"sum"`
	// what came back of it, or of what was paid on earlier days
	Refunded market.Credits `msgpack:"back,omitempty" want:"sum"`
}

// Rest is the tag of what was not told apart; no tag is written so.
const Rest = "*"

// MostUses bounds the bytes of the sums in a hub's answer, about.
const MostUses = 128 << 10

// Size returns the bytes of it in a message, about.
func (u *Use) Size() int { return 80 + len(u.Key) + len(u.Model) + len(u.Tags) }

// Add adds another sum.
func (u *Use) Add(v *Use) {
	u.Tasks, u.Prompt, u.Cached = u.Tasks+v.Tasks, u.Prompt+v.Prompt, u.Cached+v.Cached
	u.Output, u.Cost, u.Paid = u.Output+v.Output, u.Cost+v.Cost, u.Paid+v.Paid
	u.Refunded += v.Refunded
}

// CompareUse orders sums by what they are of.
func CompareUse(a, b Use) int {
	return cmp.Or(cmp.Compare(a.Day, b.Day), cmp.Compare(a.Key, b.Key), cmp.Compare(a.Model, b.Model),
		cmp.Compare(a.Tags, b.Tags))
}
