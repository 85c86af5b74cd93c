package hostile

import (
	"bytes"
	"context"
	"encoding/json"
	"reflect"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/vmihailenco/msgpack/v5"

	"souk/bus"
)

// older has a part speak and hear as the version before does: what goes through it, either way, loses the
// fields that are new since, and messages that are new as a whole do not pass.
type older struct {
	t     *testing.T
	looks bool // it only looks, and takes nothing away

	mu      sync.Mutex
	answers map[string]reflect.Type // what is awaited on an inbox
	said    map[string]bool         // new fields that were said: "bus.Dispatch msgpack fence"
}

// said are the messages of each kind of subject, by its pattern without the root, and what answers them.
var said = []struct {
	pattern      string
	what, answer any
}{
	{"task.>", bus.Task{}, bus.Answer{}},
	{"cancel.>", bus.Cancel{}, nil},
	{"status.*", bus.Status{}, nil},
	{"ledger.>", bus.FundsRequest{}, bus.FundsReply{}},
	{"reply.*.*.*", bus.Chunk{}, nil},
	{"quote.>", bus.Task{}, bus.Quote{}},
	{"hub.*.task.*", bus.Task{}, bus.Answer{}},
	{"hub.*.quote.*", bus.Task{}, bus.HubQuote{}},
	{"end.>", bus.SessionEnd{}, bus.SessionEnded{}},
	{"hub.*.end.*", bus.SessionEnd{}, nil},
	{"hub.*.taken.*.*", bus.DispatchReply{}, nil},
	{"hub.*.summary.*", bus.Summary{}, nil},
	{"hub.*.holdings.*", bus.Holdings{}, nil},
	{"hub.*.completion.*", bus.Completion{}, bus.CompletionAck{}},
	{"hub.*.cancel.*", bus.Cancel{}, nil},
	{"hub.*.ask.*", bus.Ask{}, nil},
	{"hub.*.feedback.>", bus.Feedback{}, nil},
	{"hub.*.recall.*", bus.Recall{}, bus.RecallReply{}},
	{"agent.*.dispatch.*", bus.Dispatch{}, nil},
	{"agent.*.control.*", bus.HoldControl{}, nil},
	{"agent.*.call.*", bus.Call{}, nil},
	{"agent.*.stream.*", bus.StreamControl{}, nil},
}

// newOps are what the version before does not ask the treasury for, and as a treasury does not do.
var newOps = []string{bus.OpDistribute, bus.OpClose, bus.OpMove, bus.OpBudget}

// held are the entries of the registry, by the beginnings of their keys.
var held = map[string]any{
	bus.AgentsPrefix: bus.Registration{}, bus.ClaimsPrefix: bus.Claim{}, bus.HubsPrefix: bus.HubEntry{},
	bus.LedPrefix:    bus.HubEntry{},
	bus.MarketPrefix: bus.MarketConfig{}, bus.MarksKey: bus.MarkKeys{},
	bus.VouchPrefix: bus.VouchKeys{},
}

func matches(pattern, subject string) bool {
	p, s := strings.Split(pattern, "."), strings.Split(subject, ".")
	if last := len(p) - 1; p[last] == ">" && len(s) > last {
		p, s = p[:last], s[:last]
	}
	if len(p) != len(s) {
		return false
	}
	for i := range p {
		if p[i] != "*" && p[i] != s[i] {
			return false
		}
	}
	return true
}

// kind is what is said on a subject, and what answers it; nil: nobody's of ours.
func (o *older) kind(subject string) (what, answer reflect.Type) {
	rest, ours := strings.CutPrefix(subject, bus.Root)
	if !ours {
		o.mu.Lock()
		defer o.mu.Unlock()
		return o.answers[subject], nil
	}
	for _, s := range said {
		if matches(s.pattern, rest) {
			if s.answer != nil {
				answer = reflect.TypeOf(s.answer)
			}
			return reflect.TypeOf(s.what), answer
		}
	}
	o.t.Errorf("what is said on %s is not known: name it in said of older_test.go", subject)
	return nil, nil
}

// opOf is the operation that a subject of the treasury's names.
func opOf(subject string) string {
	op, _, _, _ := bus.ParseLedger(subject)
	return op
}

// unknown reports whether the version before does not know a message at all.
func unknown(of reflect.Type) bool {
	words, isNew := added[form{of, "msgpack"}.String()]
	return isNew && words == ""
}

// pass is a message as the version before writes or reads it; ok is false for one that it knows nothing of.
func (o *older) pass(m bus.Msg) (_ bus.Msg, ok bool) {
	what, answer := o.kind(m.Subject)
	if what == nil {
		return m, true
	}
	if !o.looks && (unknown(what) || strings.HasPrefix(m.Subject, bus.Root+"ledger.") &&
		slices.Contains(newOps, opOf(m.Subject))) {
		return m, false
	}
	if answer != nil && m.Reply != "" {
		o.mu.Lock()
		o.answers[m.Reply] = answer
		o.mu.Unlock()
	}
	m.Data = o.plain(what, m.Data)
	return m, true
}

// plain takes from a message, or an entry, what the version before has no name for.
func (o *older) plain(what reflect.Type, data []byte) []byte {
	var all map[string]any
	if trimmed := bytes.TrimLeft(data, " \t\r\n"); len(trimmed) > 0 && trimmed[0] == '{' {
		d := json.NewDecoder(bytes.NewReader(data))
		d.UseNumber()
		if d.Decode(&all) != nil || !o.strip(form{what, "json"}, all) {
			return data
		}
		out, err := json.Marshal(all)
		if err != nil {
			o.t.Errorf("%s without its new fields: %v", what, err)
		}
		return out
	}
	if msgpack.Unmarshal(data, &all) != nil || !o.strip(form{what, "msgpack"}, all) {
		return data
	}
	out, err := msgpack.Marshal(all)
	if err != nil {
		o.t.Errorf("%s without its new fields: %v", what, err)
	}
	return out
}

// strip deletes new fields wherever they are, and reports whether there were any.
func (o *older) strip(f form, v any) (changed bool) {
	switch v := v.(type) {
	case []any:
		for _, one := range v {
			changed = o.strip(f, one) || changed
		}
	case map[string]any:
		for _, name := range strings.Fields(added[f.String()]) {
			if _, there := v[name]; there {
				o.mu.Lock()
				o.said[f.String()+" "+name] = true
				o.mu.Unlock()
				delete(v, name)
				changed = changed || !o.looks
			}
		}
		for _, m := range f.members() {
			if in, there := v[m.name]; there && m.of != nil {
				changed = o.strip(form{m.of, f.tag}, in) || changed
			}
		}
	}
	return changed
}

// value is plain for an entry of the registry.
func (o *older) value(key string, value []byte) []byte {
	for prefix, entry := range held {
		if strings.HasPrefix(key, prefix) && len(value) > 0 {
			return o.plain(reflect.TypeOf(entry), value)
		}
	}
	if key != bus.TreasuryKey && len(value) > 0 {
		o.t.Errorf("what is kept under %s is not known: name it in held of older_test.go", key)
	}
	return value
}

// olderBus is a connection through an older.
type olderBus struct {
	bus.Bus
	o *older
}

func (b olderBus) Publish(m bus.Msg) error {
	if m, ok := b.o.pass(m); ok {
		return b.Bus.Publish(m)
	}
	return nil
}

func (b olderBus) Subscribe(subject, queue string, h bus.Handler) (bus.Subscription, error) {
	if what, _ := b.o.kind(subject); what != nil && unknown(what) && !b.o.looks {
		return deaf{}, nil
	}
	return b.Bus.Subscribe(subject, queue, b.hears(h))
}

// deaf is a subscription that the version before does not have.
type deaf struct{}

func (deaf) Stop() error { return nil }

func (b olderBus) hears(h bus.Handler) bus.Handler {
	return func(m bus.Msg) {
		m, ok := b.o.pass(m)
		switch {
		case ok:
			h(m)
		case m.Reply != "" && strings.HasPrefix(m.Subject, bus.Root+"ledger."):
			data, err := bus.Encode(&bus.FundsReply{ID: "?", Code: bus.CodeBadRequest,
				Message: "unknown operation"})
			if err == nil {
				err = b.Bus.Publish(bus.Msg{Subject: m.Reply, Data: data})
			}
			if err != nil {
				b.o.t.Error(err)
			}
		}
	}
}

func (b olderBus) Request(ctx context.Context, m bus.Msg) (bus.Msg, error) {
	_, answer := b.o.kind(m.Subject)
	m, ok := b.o.pass(m)
	if !ok {
		b.o.t.Errorf("%s: a request that the version before cannot make", m.Subject)
	}
	a, err := b.Bus.Request(ctx, m)
	if err == nil && answer != nil {
		a.Data = b.o.plain(answer, a.Data)
	}
	return a, err
}

func (b olderBus) Serve(s bus.Service) (bus.Subscription, error) {
	all := make([]bus.Endpoint, len(s.Endpoints))
	for i, e := range s.Endpoints {
		e.Handle = b.hears(e.Handle)
		all[i] = e
	}
	s.Endpoints = all
	return b.Bus.Serve(s)
}

// olderRegistry is a registry seen through an older.
type olderRegistry struct {
	bus.Registry
	o *older
}

func (r olderRegistry) Register(ctx context.Context, key string, value []byte,
	ttl time.Duration) (bus.Lease, error) {
	l, err := r.Registry.Register(ctx, key, r.o.value(key, value), ttl)
	return olderLease{l, key, r.o}, err
}

func (r olderRegistry) Put(ctx context.Context, key string, value []byte) error {
	return r.Registry.Put(ctx, key, r.o.value(key, value))
}

func (r olderRegistry) PutFor(ctx context.Context, key string, value []byte, ttl time.Duration) error {
	if !r.o.looks && !strings.HasPrefix(key, bus.VouchPrefix) { // no hub of the version before does more
		return bus.ErrForbidden
	}
	return r.Registry.PutFor(ctx, key, r.o.value(key, value), ttl)
}

func (r olderRegistry) Get(ctx context.Context, prefix string) ([]bus.KV, error) {
	all, err := r.Registry.Get(ctx, prefix)
	for i := range all {
		all[i].Value = r.o.value(all[i].Key, all[i].Value)
	}
	return all, err
}

func (r olderRegistry) Watch(ctx context.Context, prefix string) (<-chan bus.Event, error) {
	// of which no door of the version before knows
	if (prefix == bus.MarksKey || prefix == bus.LedPrefix) && !r.o.looks {
		return nil, bus.ErrForbidden
	}
	in, err := r.Registry.Watch(ctx, prefix)
	if err != nil {
		return nil, err
	}
	out := make(chan bus.Event)
	go func() {
		defer close(out)
		for e := range in {
			e.Value = r.o.value(e.Key, e.Value)
			select {
			case out <- e:
			case <-ctx.Done():
				return
			}
		}
	}()
	return out, nil
}

func (r olderRegistry) Elect(ctx context.Context, key string, value []byte,
	ttl time.Duration) (bus.Leadership, error) {
	l, err := r.Registry.Elect(ctx, key, r.o.value(key, value), ttl)
	return olderLeadership{l, key, r.o}, err
}

type olderLease struct {
	bus.Lease
	key string
	o   *older
}

func (l olderLease) Update(ctx context.Context, value []byte) error {
	return l.Lease.Update(ctx, l.o.value(l.key, value))
}

type olderLeadership struct {
	bus.Leadership
	key string
	o   *older
}

func (l olderLeadership) Update(ctx context.Context, value []byte) error {
	return l.Leadership.Update(ctx, l.o.value(l.key, value))
}

func (l olderLeadership) Claim(ctx context.Context, key string, value []byte) (int64, error) {
	return l.Leadership.Claim(ctx, key, l.o.value(key, value))
}
