package bus

import (
	"bytes"
	"errors"
	"math"
	"reflect"
	"strings"
	"testing"

	"souk/bus/tip"
	"souk/market"
)

// hostile are messages that would do harm, or slip something past a check: the msgpack library (v5.4.1) dies
// of the first, and takes most of the others.
var hostile = []struct{ name, hex, says string }{
	// models: [...]
	{"eleven bytes that ask for 2^32-1 structs", "81 a6 6d 6f 64 65 6c 73 dd ff ff ff ff", "beyond the end"},
	{"a map of 2^32-1 members", "df ff ff ff ff", "beyond the end"},
	{"a string of 2^32-1 bytes", "81 a4 74 61 73 6b db ff ff ff ff", "beyond the end"},
	{"bytes of 2^32-1", "81 a4 62 6f 64 79 c6 ff ff ff ff 00", "beyond the end"},
	{"a key of 2^32-1 bytes", "81 db ff ff ff ff", "beyond the end"},
	{"bytes behind the end", "81 a4 74 61 73 6b a1 74 00", "behind the end"},
	{"a second message behind the end", "81 a4 74 61 73 6b a1 74 81 a4 74 61 73 6b a1 75", "behind the end"},
	{"a key twice", "82 a4 74 61 73 6b a1 74 a4 74 61 73 6b a1 75", "stands twice"},
	{"a key twice, spelt differently", "82 a4 74 61 73 6b a1 74 d9 04 74 61 73 6b a1 75", "stands twice"},
	{"an extension type", "81 a4 74 61 73 6b c7 01 05 00", "not used here"},
	{"a timestamp", "81 a4 74 61 73 6b d6 ff 00 00 00 00", "not used here"},
	{"the byte that msgpack never uses", "81 a4 74 61 73 6b c1", "not used here"},
	{"a number as key", "81 01 02", "not a string"},
	{"nil as key", "81 c0 c0", "not a string"},
	{"an array", "93 01 02 03", "is a map"},
	{"nil", "c0", "is a map"},
	{"nothing", "", "empty"},
	{"cut off", "82 a4 74 61 73 6b a1 74", "beyond the end"},
	{"cut off in a number", "81 a4 74 61 73 6b cf 00", "beyond the end"},
	{"65 members", "de 00 41 " + strings.Repeat("a0c0", 65), "65 members"},
	{"an array of 16385 items", "81 a1 78 dc 40 01 " + strings.Repeat("00", 16385), "16385 items"},
}

func TestHostileBytesAreRefused(t *testing.T) {
	for _, h := range hostile {
		data := unhex(t, h.hex)
		for _, m := range full() {
			v := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
			err := Decode(data, v)
			_, cancel := v.(*Cancel) // others may find something else first: a task that is no text
			if h.says == "stands twice" && !cancel {
				continue // of members that nobody reads
			}
			if CodeOf(err) != CodeBadRequest || cancel && !strings.Contains(err.Error(), h.says) {
				t.Errorf("%s, as %T: got %v, want %q", h.name, v, err, h.says)
			}
		}
	}
	for number, says := range map[string]string{
		"63 cf ff ff ff ff ff ff ff ff":    "beyond int64",  // c: 2^64-1, which would become -1
		"6b 91 ce ff ff ff ff":             "",              // k: [2^32-1]
		"6b 91 cf 00 00 00 01 00 00 00 05": "beyond uint32", // 2^32+5, which would become 5
		"6b 91 ff":                         "beyond uint32", // -1, which would become 2^32-1
	} {
		err := Decode(unhex(t, "82 a1 74 a1 74 a1 "+number), &Chunk{})
		if says == "" && err != nil || says != "" && (err == nil || !strings.Contains(err.Error(), says)) {
			t.Errorf("%s: got %v, want %q", number, err, says)
		}
	}
	// task: t, x: what nobody reads, however deep
	for _, x := range []string{"92 01 82 a1 79 c0 a1 79 c0", "91 cf ff ff ff ff ff ff ff ff",
		strings.Repeat("91", 100_000) + "00"} {
		if err := Decode(unhex(t, "82 a4 74 61 73 6b a1 74 a1 78 "+x), &Cancel{}); err != nil {
			t.Errorf("a member that nobody knows: %v", err)
		}
	}
	if err := Decode(make([]byte, MaxMessage+1), &Task{}); CodeOf(err) != CodeTooLarge {
		t.Errorf("a message above the limit: %v", err)
	}
}

// Refusing costs no memory out of proportion.
func TestRefusingCostsNoMemory(t *testing.T) {
	small := unhex(t, "81 a6 6d 6f 64 65 6c 73 dd ff ff ff ff")
	if n := testing.AllocsPerRun(100, func() { Decode(small, &Status{}) }); n > 10 {
		t.Errorf("refusing eleven bytes makes %v allocations", n)
	}
}

func TestMeaninglessMessagesAreRefused(t *testing.T) {
	nan, minus := math.NaN(), int64(-1)
	two, cursor := uint64(2), uint64(1<<63-1)
	for _, test := range []struct {
		m    Message
		says string
	}{
		{&Task{Client: "a.b"}, "client"},
		{&Task{ID: strings.Repeat("x", MaxID+1)}, "task"},
		{&Task{Kind: "poem"}, "kind"},
		{&Task{Failover: "maybe"}, `failover: "maybe" is none of off; it may be left out`},
		{&Task{Reply: "_INBOX.someone"}, "reply"},
		{&Task{DeadlineMS: -5}, "deadline_ms"},
		{&Task{Role: "a\x00b"}, "does not print"},
		{&Task{BackMS: -1}, "back_ms"},
		{&Task{BackMS: MaxBackMS + 1}, "back_ms"},
		{&Task{Parent: "a.b"}, "parent"},
		{&Task{Next: "a\x00b"}, "next"},
		{&Task{Next: strings.Repeat("x", MaxName+1)}, "next"},
		{&Task{Prompt: Prompt{Bytes: 10, SystemBoundary: 11}}, "system_boundary"},
		{&Completion{Agent: "a", Hold: "h", Outcome: OutcomeDone, Tool: 1 << 62}, "tool"},
		{&Completion{Agent: "a", Hold: "h", Outcome: OutcomeDone, Thought: -1}, "thought"},
		{&Task{Role: "a\xffb"}, "UTF-8"},
		{&Task{Terms: Terms{Delta: &nan}}, "delta"},
		{&Task{Terms: Terms{PatienceMS: &minus}}, "patience_ms"},
		{&Task{Prompt: Prompt{Bytes: 10, Prefixes: []PrefixHash{{Bytes: 5}, {Bytes: 3}}}}, "prefixes[1]"},
		{&Task{Prompt: Prompt{Bytes: 10, Prefixes: []PrefixHash{{Bytes: 11}}}}, "prefixes[0]"},
		{&Answer{}, "exactly one"},
		{&Answer{Accepted: &Accepted{}, Result: &Result{}}, "exactly one"},
		{&Dispatch{Kind: "order"}, "kind"},
		{&Dispatch{Kind: DispatchTask, Domain: "math"}, "hold"},
		{&DispatchReply{Agent: "*"}, "agent"},
		{&Chunk{Task: "t", Extra: []Extra{{At: 9}}}, "beyond the text"},
		{&Chunk{Task: "t", Seq: 1<<63 - 1}, "seq"},
		{&Chunk{Task: "t", Count: -1}, "tokens"},
		{&StreamControl{Token: "t"}, "exactly one"},
		{&StreamControl{Token: "t", Cancel: true, Ack: &two}, "exactly one"},
		{&StreamControl{Token: "a.b", Cancel: true}, "task"},
		{&StreamControl{Token: "t", Resume: &cursor}, "resume"},
		{&HoldControl{Hold: "h"}, "none of them says nothing"},
		{&HoldControl{Cancel: true}, "wants a hold"},
		{&HoldControl{Late: true}, "wants a hold"},
		{&HoldControl{Hold: "h", Late: true, Withdraw: true}, "wants a hold"},
		{&HoldControl{Late: true, Holdings: true}, "wants a hold"},
		{&HoldControl{Hold: "h", Cancel: true, Withdraw: true}, "wants a hold"},
		{&HoldControl{Hold: "a\x00b", Withdraw: true}, "hold"},
		{&Task{Token: "a.b"}, "reply_token"},
		{&Task{Reply: "souk.v1.reply.ada"}, "reply"},
		{&Task{Reply: "souk.v1.reply.ada.t.a1"}, "reply"},
		{&Task{Reply: "souk.v1.hub.math.task"}, "reply"},
		{&Cancel{}, "task"},
		{&Feedback{Task: "t", Quality: 1.01}, "quality"},
		{&SessionEnd{}, "session"},
		{&SessionEnd{Session: "a.*"}, "session"},
		{&SessionEnd{Session: "s", Client: ">"}, "client"},
		{&SessionEnded{Session: "s", Hubs: -1}, "hubs"},
		{&Feedback{Task: "t", Quality: nan}, "quality"},
		{&Summary{Agent: "a", State: "bored"}, "state"},
		{&Summary{Agent: "a", State: StateReady, Slots: -1}, "slots"},
		{&Summary{Agent: "a", State: StateReady, Prefills: -1}, "prefills"},
		{&Summary{Agent: "a", State: StateReady, Late: make([]string, 65)}, "late: 65 entries"},
		{&Summary{Agent: "a", State: StateReady, Late: []string{"a\x00b"}}, "late"},
		{&HoldControl{Hold: "h", Cancel: true, Holdings: true}, "holdings none"},
		{&Holdings{Agent: "a.b", Seq: 1, Base: 1, Evidence: "events"}, "agent"},
		{&Holdings{Agent: "a", Seq: 1, Base: 1, Evidence: "rumour"}, "evidence"},
		{&Holdings{Agent: "a", Seq: 1, Base: 2, Evidence: "events"}, "base"},
		{&Holdings{Agent: "a", Seq: 1, Evidence: "events"}, "base"},
		{&Holdings{Agent: "a", Seq: 5, Base: 4, Parts: 1, Evidence: "events"}, "part"},
		{&Holdings{Agent: "a", Seq: 5, Base: 4, Part: 1, Parts: 1, Evidence: "events"}, "part"},
		{&Holdings{Agent: "a", Seq: 4, Base: 4, Parts: 17, Evidence: "events"}, "parts"},
		{&Holdings{Agent: "a", Seq: 4, Base: 4, Parts: 1, Drop: make([]byte, 6), Evidence: "events"}, "drop"},
		{&Holdings{Agent: "a", Seq: 4, Base: 4, Parts: 1, Add: make([]byte, 7), Evidence: "events"}, "add"},
		{&Holdings{Agent: "a", Seq: 4, Base: 4, Add: make([]byte, MaxPart+2), Evidence: "events"}, "add"},
		{&Holdings{Agent: "a", Seq: 4, Base: 4, Coverage: 1.5, Evidence: "events"}, "coverage"},
		{&Holdings{Agent: "a", Seq: 4, Base: 4, Coverage: nan, Evidence: "events"}, "coverage"},
		{&Holdings{Agent: "a", Seq: 4, Base: 4, Blocks: -1, Evidence: "events"}, "blocks"},
		{&Completion{Agent: "a", Hold: "h", Outcome: OutcomeDone, Asserted: -1}, "asserted"},
		{&Completion{Agent: "a", Hold: "h", Outcome: OutcomeDone, NoCacheReport: true,
			Usage: market.Usage{Prompt: 9, Cached: 1}}, "no_cache_report"},
		{&Result{Client: "ada", Task: "t", Own: -1}, "own"},
		{&Status{Domain: "math", Labels: []string{"a b"}}, "labels"},
		{&FundsRequest{Amount: -1}, "amount"},
		{&FundsReply{Grants: []Grant{{}}}, "grants.client"},
		{&FundsRequest{Domain: "a.b"}, "domain"},
		{&FundsRequest{To: "a.b"}, "to"},
		{&FundsRequest{Vouchers: make([]DoorVoucher, MaxVouchers+1)}, "vouchers: 17 entries"},
		{&FundsRequest{Vouchers: []DoorVoucher{{Door: "a.b"}}}, "vouchers.door"},
		{&FundsRequest{Vouchers: []DoorVoucher{{Door: "d", Voucher: make([]byte, 39)}}}, "a voucher has 40"},
		{&Task{Voucher: make([]byte, 41)}, "a voucher has 40"},
		{&Task{Voucher: NewVoucher(nil, "d", "c", "j", 1<<63, 1, 1)}, "voucher: line"},
		{&Task{Voucher: NewVoucher(nil, "d", "c", "j", 1, -1, 1)}, "voucher: total"},
		{&Task{Voucher: NewVoucher(nil, "d", "c", "j", 1, 1, market.MaxCredits+1)},
			"voucher: total 0.000000001, most 1"},
		{&FundsReply{RetryMS: -1}, "retry_ms"},
		{&FundsReply{Hubs: []HubFunds{{Hub: "h", Avail: 1, Reserved: 2}}}, "hubs.reserved"},
		{&Recall{Hub: "h", Client: "a.b"}, "client"},
		{&Recall{Client: "ada"}, "hub"},
		{&RecallReply{Hub: "h", Client: "ada", Held: -1}, "held"},
		{&FundsReply{Surplus: -1}, "surplus"},
		{&Recall{Hub: "h", Client: "h", Order: &tip.Ordered{Number: 1, Amount: -1}}, "order.amount"},
		{&Recall{Hub: "h", Client: "h", Order: &tip.Ordered{Number: 1, Client: "a b"}}, "order.client"},
		{&RecallReply{Hub: "h", Client: "h", Last: &tip.Ordered{Client: "a b"}}, "last.client"},
		{&RecallReply{Hub: "h", Client: "h", There: -1}, "there"},
		{&FundsRequest{Order: &tip.Order{Agent: "a b"}}, "order.agent"},
		{&FundsRequest{Order: &tip.Order{Ref: strings.Repeat("r", 1<<16)}}, "order.ref"},
		{&FundsRequest{Order: &tip.Order{Note: "a\nb"}}, "order.note"},
		{&FundsRequest{Amount: math.MinInt64}, "amount"},
	} {
		data, err := Encode(test.m)
		if err != nil {
			t.Fatal(err)
		}
		v := reflect.New(reflect.TypeOf(test.m).Elem()).Interface().(Message)
		if err := Decode(data, v); err == nil || !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: got %v, want %q", test.m, err, test.says)
		}
	}
}

// Whatever field of a message somebody fills beyond measure, the message is refused.
func TestEveryFieldIsBounded(t *testing.T) {
	free := map[string]bool{"bus.PrefixHash.Hash": true, "bus.Heard.Weight": true, "bus.Extra.Choice": true}
	var beyond func(m Message, v reflect.Value, path string)
	beyond = func(m Message, v reflect.Value, path string) {
		was := reflect.New(v.Type()).Elem()
		was.Set(v)
		defer v.Set(was)
		switch v.Kind() {
		case reflect.Struct:
			for i := range v.NumField() {
				f := v.Type().Field(i)
				name := v.Type().String() + "." + f.Name
				if f.IsExported() && f.Tag.Get("msgpack") != "-" && !free[name] {
					beyond(m, v.Field(i), name)
				}
			}
			return
		case reflect.Pointer:
			if !v.IsNil() {
				beyond(m, v.Elem(), path)
			}
			return
		case reflect.String:
			v.SetString(strings.Repeat("x", MaxMessage))
		case reflect.Int, reflect.Int64:
			v.SetInt(math.MinInt64)
		case reflect.Uint64:
			v.SetUint(math.MaxUint64)
		case reflect.Float64:
			v.SetFloat(math.Inf(1))
		case reflect.Slice:
			if v.Len() > 0 && v.Type().Elem().Kind() != reflect.Uint8 {
				beyond(m, v.Index(0), path)
			}
			v.Set(reflect.MakeSlice(v.Type(), 1<<20, 1<<20))
		default:
			return
		}
		if m.Validate() == nil {
			t.Errorf("%T is taken with %s beyond measure", m, path)
		}
	}
	for _, m := range full() {
		beyond(m, reflect.ValueOf(m).Elem(), "")
	}
}

func TestWhatPeopleWriteByHandMayBeJSON(t *testing.T) {
	var c Cancel
	if err := Decode([]byte(" {\"task\":\"t-1\"}\n"), &c); err != nil || c.Task != "t-1" {
		t.Errorf("%+v, %v", c, err)
	}
	var f FundsRequest
	if err := Decode([]byte(`{"id":"d1","client":"ada","amount":12.5}`), &f); err != nil ||
		f.Amount.String() != "12.5" {
		t.Errorf("%+v, %v", f, err)
	}
	for _, bad := range []string{`{"task":"t-1"}x`, `{"task":7}`, `{"task":"a.b"}`, `{"task":`} {
		if err := Decode([]byte(bad), &Cancel{}); CodeOf(err) != CodeBadRequest {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if err := Decode([]byte(`{"agent":"a"}`), &DispatchReply{}); CodeOf(err) != CodeBadRequest {
		t.Errorf("what only programs say was taken in JSON: %v", err)
	}
}

func TestEntriesOfTheRegistry(t *testing.T) {
	r := &Registration{Agent: "a1", Model: "llama", Domains: []DomainScore{{"math", 0.5}}, Slots: 8,
		State: StateReady}
	data, err := EncodeEntry(r)
	if err != nil {
		t.Fatal(err)
	}
	var got Registration
	if err := DecodeEntry(data, &got); err != nil || !reflect.DeepEqual(&got, r) {
		t.Errorf("%s: %+v, %v", data, got, err)
	}
	for bad, says := range map[string]string{
		`{`: "JSON", `{"agent":"a.b"}`: "agent", `{"agent":"a1","model":"m","state":"ready"}`: "domains",
		`{"agent":"a1","model":"m","state":"ready","domains":[{"domain":"math"}],"price":{"miss":1,"hit":2,"out":3}}`: "hit is 2",
		`{"agent":"a1","model":"m","state":"ready","domains":[{"domain":"math"},{"domain":"math"}]}`:                  "twice",
		`{"agent":"a1","model":"m","state":"ready","domains":[{"domain":"math","score":7}]}`:                          "score",
	} {
		if err := DecodeEntry([]byte(bad), &Registration{}); err == nil ||
			!strings.Contains(err.Error(), says) {
			t.Errorf("%s: got %v, want %q", bad, err, says)
		}
	}
	if err := DecodeEntry(make([]byte, MaxEntry+1), &Claim{}); CodeOf(err) != CodeTooLarge {
		t.Errorf("an entry above the limit: %v", err)
	}
	if err := DecodeEntry([]byte(`{"domain":"math","max_wait_ms":-1}`), &MarketConfig{}); err == nil {
		t.Error("a negative wait was taken")
	}
	if err := DecodeEntry([]byte(`{"domain":"math","pricng":"tariff"}`), &MarketConfig{}); err == nil ||
		!strings.Contains(err.Error(), `"pricng"`) {
		t.Errorf("an operator's slip: %v", err)
	}
	if err := DecodeEntry([]byte(`{"domain":"math","labels":["math"],"of_a_later_version":1}`),
		&HubEntry{}); err != nil {
		t.Errorf("a later version's entry: %v", err)
	}
	if err := DecodeEntry([]byte(`{"domain":"math","labels":[""]}`), &HubEntry{}); err == nil {
		t.Error("an empty label was taken")
	}
}

// FuzzDecode feeds every decoder; what one takes must be sound, and come back from its own encoding.
func FuzzDecode(f *testing.F) {
	for _, h := range hostile {
		f.Add(unhex(f, h.hex))
	}
	for _, m := range full() {
		data, err := Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
		f.Add(data[:len(data)/2])
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		for _, m := range full() {
			v := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
			err := Decode(data, v)
			if err != nil {
				var refused *Error
				if !errors.As(err, &refused) || refused.Code == "" || refused.Message == "" {
					t.Fatalf("refused with %v", err)
				}
				continue
			}
			if err := v.Validate(); err != nil {
				t.Fatal(err)
			}
			if isJSON(data) {
				continue
			}
			again, err := Encode(v)
			if err != nil {
				t.Fatal(err)
			}
			w := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
			if err := Decode(again, w); err != nil {
				t.Fatalf("%T %+v does not come back: %v", v, v, err)
			}
			if third, err := Encode(w); err != nil || !bytes.Equal(again, third) {
				t.Fatalf("%T: encoded as %x, then as %x, %v", v, again, third, err)
			}
		}
	})
}

func benchmarkMessages() map[string]Message {
	out := map[string]Message{}
	for _, m := range full() {
		switch m := m.(type) {
		case *Dispatch:
			m.Task.Body = bytes.Repeat([]byte(" "), 5000)
			out["dispatch of 5 KB"] = m
		case *Chunk:
			out["chunk"] = &Chunk{Task: "t-123456", Seq: 17, Text: " the", Count: 1}
		case *Completion:
			out["completion"] = m
		}
	}
	return out
}

func BenchmarkEncode(b *testing.B) {
	for name, m := range benchmarkMessages() {
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Encode(m); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkDecode(b *testing.B) {
	for name, m := range benchmarkMessages() {
		data, err := Encode(m)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				v := reflect.New(reflect.TypeOf(m).Elem()).Interface().(Message)
				if err := Decode(data, v); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
