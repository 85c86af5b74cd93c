package bus

import (
	"bytes"
	"encoding/hex"
	"reflect"
	"strings"
	"testing"

	"souk/bus/tip"
	"souk/market"
)

// full returns one of each message with every field that the wire carries set.
func full() []Message {
	credits := func(c market.Credits) *market.Credits { return &c }
	number := func(n uint64) *uint64 { return &n }
	gauge := func(n int64) *int64 { return &n }
	share := 0.5
	order := tip.Order{By: "op", Ref: "r-1", Note: "why", Month: "2026-11", Closed: "2026-10", Above: 5,
		Second: "op2", Key: "U", Signature: "s", Agent: "a-1", Receipt: "j/1/0",
		From: "agent", Rule: "agents",
		Capture: &tip.Captured{Held: 1, Seq: 2, Time: 3, Paid: 4, Model: "m", APIKey: "k1", Tags: "a=b"},
		Shares:  []tip.Share{{Agent: "a-1", Slots: 2}}}
	task := Task{
		Client: "ada", ID: "t-1", Kind: KindChat, Body: []byte(`{"messages":[]}`),
		Large: &Large{Bytes: MaxBody + 1, SHA256: bytes.Repeat([]byte{9}, 32)}, Stream: true,
		Terms:      Terms{Worth: credits(7), Delta: &share, PatienceMS: gauge(500), MaxPrice: credits(9)},
		DeadlineMS: 1_800_000_000_000, Session: "s", SessionEnd: true, Turn: 3, Role: "critic",
		BackMS: 2500, Parent: "s-0", Next: "writer", Declared: true, Salt: "salt",
		Source: "web", Run: "run 7", Hub: "math", Request: "r-1", Key: "k1",
		Tags: "team=red&user=a%0A", Failover: "off", Attempt: 1, Token: "k-1", Again: 1, AgeMS: 9,
		FirstMS: 1_790_000_000_000, LastStatus: &LastStatus{Epoch: 7, Seq: 12}, Whole: true, Tail: true,
		Voucher: NewVoucher(make([]byte, VouchKeyBytes), "door", "ada", "j", 3, 9, 2),
		Resume:  &Resume{Agent: "a0", Seq: 4, Tokens: []uint32{5, 1 << 31}, Text: "hi", Parses: true},
		Model:   "llama", Domain: "math", Reply: "souk.v1.reply.ada.t-1", MaxTokens: 100,
		Prompt: Prompt{Bytes: 900, Messages: 2, Tokens: 230,
			Prefixes: []PrefixHash{{Bytes: 512, Hash: 1<<63 + 5}, {Bytes: 900, Hash: 7}},
			Former:   Hashes("former and other"), Next: Hashes("next and another"), Text: 950, Wide: 40,
			AtLeast: 60,
			Pieces:  3, Tools: 1, Loose: LooseCounted, SystemBoundary: 512},
	}
	price := market.Price{Miss: 30, Hit: 3, Out: 60}
	usage := market.Usage{Prompt: 230, Cached: 64, Output: 12}
	result := Result{
		Client: "ada", Task: "t-1", Session: "s", Hub: "math", Agent: "a1", Model: "llama",
		Code: CodeAgentFailed, Message: "gone", RetryMS: 5,
		Text: "hi", Extra: []Extra{{At: 1, Choice: []byte(`{"delta":{}}`)}}, Finish: "stop",
		Stop: []byte(`"x"`), Chunks: 4,
		Usage: usage, Billed: &usage, Thought: 7, Unmetered: true, TTFTUS: 1, ITLUS: 2, Cost: 4, Premium: -5,
		SlotPrice: 6, Toll: -7, Own: 1, Fee: 8,
		Receipt: &Receipt{ID: "j/1/0", Index: 9, Journal: "j", Round: 1, Epoch: 2,
			Earlier: []string{"j/0/0"}},
	}
	quote := Quote{Client: "ada", Domain: "math", Code: CodeNoRoom, Message: "full", RetryMS: 250,
		Hubs: []HubQuote{{Hub: "math", Round: 5, ValidMS: 1000, Code: CodeNoRoom, Message: "full",
			RetryMS: 250, Models: []ModelQuote{{Model: "llama", TTFTMS: 40.5, WaitMS: 1.25, Cost: 4,
				Premium: -5, SlotPrice: 6, CachedShare: 0.25, Quality: 0.9, WouldWin: true,
				Price: QuotePrice{Min: 1, Expected: 2, Max: 3}}}}}}
	attest := &Attest{Of: "m/j", Note: []byte("n"), Old: 1, Proof: []byte("p"), Held: []byte("h"), Why: "w"}
	return []Message{
		&task,
		&Accepted{Client: "ada", Task: "t-1", Hub: "math", Agent: "a1", Model: "llama",
			Reply: "souk.v1.reply.ada.t-1", Round: 5, Attempt: 1},
		&Answer{Result: &result, Lookup: &LastStatus{Epoch: 7, Seq: 13}, SoleOwner: true},
		&Dispatch{Kind: DispatchTask, Domain: "math", Epoch: 3, Journal: "j", Round: 9, Hold: "j/9/0",
			Index: 40,
			Task:  task, Model: "llama", MaxTokens: 64,
			Price: price, Premium: 1, SlotPrice: 2, Toll: -4, Own: 1, Fee: 3, Settle: "metered",
			Quoted: 4, Tariff: 2, CostCap: 5, TimeoutMS: 1000, Whole: 70,
			Earlier: []string{"j/8/0"}, Boot: 8, Fence: 41,
			PromptMost: 990, Cached: 64, Open: true, FirstMS: 2500, LimitMS: 7000,
			Asserted: 48, WatchMS: 700, Tight: true},
		&Call{Agent: "a1", Class: "h200", Epoch: 4, Lead: 3, Open: true},
		&Ask{Agent: "a1", Class: "h200", Epoch: 4, Seal: bytes.Repeat([]byte{7}, 32), Amount: 5,
			Nonce: bytes.Repeat([]byte{8}, 16)},
		&DispatchReply{Agent: "a1", Boot: 7, Hold: "j/9/0", Code: CodeNoSlot, Message: "full"},
		&Chunk{Task: "t-1", Attempt: 1, Seq: 8, Text: "hi", Tokens: []uint32{1, 1 << 31}, Count: 2,
			Extra: []Extra{{At: 2, Choice: []byte("{}")}}, Finish: true, Heartbeat: true, Agent: "a1",
			Dead: true, Result: &result},
		&result,
		&Completion{Agent: "a1", Boot: 1, Hold: "h", Client: "ada", Task: "t-1", Outcome: OutcomeDone,
			Code: CodeLate, Finish: "stop", Usage: usage,
			Relayed: 12, Unmetered: true, Unsaid: true, Asserted: 48, Tool: 1 << 61,
			Thought: 7, Said: &usage,
			Cost:   5,
			TTFTUS: 6, ITLUS: 7},
		&CompletionAck{Hold: "h", Code: CodeLate},
		&Cancel{Client: "ada", Task: "t-1"},
		&StreamControl{Token: "t-1", Resume: number(4)},
		&BodyAsk{SHA256: bytes.Repeat([]byte{9}, 32), At: MaxBody, Token: "x"},
		&BodyPiece{At: MaxBody, Data: []byte("y")},
		&HoldControl{Hold: "j/9/0", Withdraw: true},
		&HoldControl{Hold: "j/9/0", Late: true},
		&HoldControl{Holdings: true},
		&Feedback{Client: "ada", Task: "t-1", Quality: 0.5, Gold: true},
		&Summary{Agent: "a1", Boot: 1, Seq: 2, State: StateReady, Slots: 8,
			InFlight: 1, Price: price,
			Queue: true, Prefills: 2,
			Late: []string{"j/9/0", "j/9/1"}},
		&Holdings{Agent: "a1", Boot: 1, Life: 2, Seq: 5, Base: 4, Part: 1, Parts: 2, Coverage: 0.95,
			Blocks: 9, Evidence: EvidenceEvents, Add: []byte{1, 2, 3, 4, 5, 6}},
		&Holdings{Agent: "a1", Boot: 1, Life: 2, Seq: 6, Base: 4, Coverage: 0.95, Blocks: 9,
			Evidence: EvidenceEvents, Add: []byte{1, 2, 3, 4, 5, 6}, Drop: []byte{1, 2, 3, 4, 5, 7}},
		&Status{Regime: "below", Closed: "the disk is full", ClosedMS: 4,
			Policies: []PolicyStatus{{Hook: "keep", Policy: "kvcache", OffMS: 5, Why: "it panicked"}},
			Domain:   "math", Labels: []string{"math"}, General: true, Epoch: 1, Seq: 2, Agents: 3,
			Slots: 4, Free: 5, Waiting: 6, Room: 7,
			Models: []ModelStatus{{Model: "llama", Agents: 1, Free: 2, Quality: 0.9, Price: price, TTFTUS: 3,
				SlotPrice: 4, MaxModelLen: 5, Cards: Cards{Least: price, Most: price}}}},
		&FundsRequest{Attest: attest,
			ID: "f", Client: "ada", To: "bob", Every: "day", Hub: "j", Epoch: 1, Amount: 2,
			Least: 1, After: 3,
			Returned: 4, Ordered: 5, Domain: "math", AtMS: 6, Ahead: true, Hubs: true, Needs: 9,
			UsesDay: 20000, UsesKey: "k1",
			Vouchers: []DoorVoucher{{Door: "door", Voucher: task.Voucher}},
			Mark:     &tip.Mark{Journal: tip.Sum{1}, Seq: 2, Sum: tip.Sum{3}}, Unsure: true,
			Known: &tip.Mark{Journal: tip.Sum{4}, Seq: 5, Sum: tip.Sum{6}},
			Spent: []tip.Spent{{Client: "ada", Amount: 7}}, Sure: true, Order: &order, Token: "jwt"},
		&FundsReply{Attest: attest,
			ID: "f", Epoch: 7, Code: CodeUnknownClient, Message: "who", Client: "ada", Prepaid: 1,
			Allotted: 2,
			Grants:   []Grant{{Number: 1, Client: "ada", Hub: "j", Amount: 5}}, Returned: 3, Ended: true,
			Unmade: true, RetryMS: 250, Number: 6, Surplus: 7, Journal: tip.Sum{9}, Lost: true,
			Contradicted: true, Back: 8, Gone: 9, Debits: 10, Credits: 10, Deposits: 10, Expires: 11,
			Mark:  &tip.Mark{Journal: tip.Sum{1}, Seq: 2, Sum: tip.Sum{3}},
			Known: &tip.Mark{Journal: tip.Sum{4}, Seq: 5, Sum: tip.Sum{6}},
			Hubs: []HubFunds{{Hub: "j", Domain: "math", Allotted: 9, Avail: 5, Held: 2, Reserved: 1,
				Owed: 3, AtMS: 7, HeardMS: 8}}, Order: &tip.Ordered{Kind: "remit", Order: &order}},
		&Recall{ID: "4", Epoch: 7, Hub: "j", Client: "ada", Granted: 9, Look: true,
			UsesDay: 2, UsesKey: "k1",
			Order: &tip.Ordered{Kind: "remit", Number: 1, Client: "ada", Amount: 2, Order: &order}},
		&RecallReply{ID: "4", Hub: "j", Client: "ada", Avail: 5, Held: 2, Reserved: 1, Accepted: 9,
			Returned: 3, Next: 2, Last: &tip.Ordered{Kind: "refund", Order: &order}, There: 6, Ripe: 4,
			Why: "no", Since: 7,
			Uses: []tip.Use{{Day: 1, Key: "k1", Tags: "a=b", Model: "m", Tasks: 1, Prompt: 2, Cached: 1,
				Output: 3, Cost: 4, Paid: 5, Refunded: 1}}},
		&Feed{Domain: "math", Journal: "j", Epoch: 7, AtMS: 8, Unseen: 3,
			Rounds: []FeedRound{
				{Number: 9, AtMS: 8, Pricing: "vcg", Instead: true, Tasks: 3, Agents: 2, Welfare: 5,
					Given: 2, Premiums: -3, SlotPrice: 4,
					Awards: []FeedAward{{Slot: 1, Agent: "a1", Value: 9, Cost: 4, Premium: -1, SlotPrice: 2}},
					Left:   []FeedLeft{{Agent: "a1", Value: -3, Needed: 6, Planned: true}}, More: 4},
			},
			State: &FeedState{Hub: "math-1", Unready: "full", Expires: 11, Tasks: 9, Served: 8,
				Refused: 1, Rounds: 7, Awards: 8, Stopped: 1, Faults: 1, Waiting: 2, Running: 3, Avail: 4,
				Held:    5,
				Surplus: 6, Fee: 1, Payable: 7, Fleet: 2, Agents: []FeedAgent{{Agent: "a1", Model: "llama",
					State: "silent", Slots: 4, Running: 3, Free: 1, Tasks: 8, Prompt: 90, Cached: 30, Cost: 5,
					Failed: 1}}}},
		&quote,
		&quote.Hubs[0],
		&SessionEnd{Client: "ada", Session: "s-1"},
		&SessionEnded{Session: "s-1", Hubs: 3, Code: CodeBadRequest, Message: "what?"},
	}
}

func TestEveryMessageComesBackAsItWent(t *testing.T) {
	for _, want := range full() {
		data, err := Encode(want)
		if err != nil {
			t.Fatalf("%T: %v", want, err)
		}
		got := reflect.New(reflect.TypeOf(want).Elem()).Interface().(Message)
		if err := Decode(data, got); err != nil {
			t.Fatalf("%T: %v", want, err)
		}
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%T:\n got %+v\nwant %+v", want, got, want)
		}
		// A sample that leaves a field zero would prove nothing about that field.
		unset(t, reflect.ValueOf(want).Elem(), reflect.TypeOf(want).String())
	}
}

// unset complains of zero fields that the wire carries.
func unset(t *testing.T, v reflect.Value, path string) {
	for i := range v.NumField() {
		f := v.Type().Field(i)
		switch {
		case !f.IsExported(), f.Tag.Get("msgpack") == "-", strings.HasPrefix(path, "*bus.Answer") &&
			f.Name == "Accepted",
			strings.HasPrefix(path, "*bus.StreamControl") &&
				(f.Name == "Ack" || f.Name == "Cancel"),
			strings.HasPrefix(path, "*bus.Holdings") && (f.Name == "Part" || f.Name == "Parts" ||
				f.Name == "Drop"), // each in one of the two
			strings.HasPrefix(path, "*bus.Completion") && f.Name == "NoCacheReport", // or tokens are cached
			strings.HasPrefix(path, "*bus.HoldControl"):                             // one at a time
		case v.Field(i).IsZero():
			t.Errorf("%s.%s is not set in the sample", path, f.Name)
		case f.Type.Kind() == reflect.Struct:
			unset(t, v.Field(i), path+"."+f.Name)
		}
	}
}

func TestUnknownMembersAreIgnored(t *testing.T) {
	// task: t, new: [1, {x: nil}], other: 2.0
	data := unhex(t, "83 a4 74 61 73 6b a1 74 a3 6e 65 77 92 01 81 a1 78 c0 a5 6f 74 68 65 72 cb 40 00 00 "+
		"00 00 00 00 00")
	var c Cancel
	if err := Decode(data, &c); err != nil || c.Task != "t" {
		t.Fatalf("got %+v, %v", c, err)
	}
}

func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.ReplaceAll(s, " ", ""))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestWantsJSON(t *testing.T) {
	packed, err := Encode(&Task{Body: []byte(`{}`)})
	if err != nil {
		t.Fatal(err)
	}
	for data, want := range map[string]bool{"": true, "hello": true, " {": true, "[]": true,
		"\xef\xbb\xbf{": true, "\x05": true, "\xc1\xff": true, string(packed): false, "\x80": false,
		"\xdf\xff": false} {
		if got := WantsJSON([]byte(data), nil); got != want {
			t.Errorf("%q: %v, want %v", data, got, want)
		}
	}
	if WantsJSON([]byte("{"), Header{"Content-Type": {"application/msgpack"}}) ||
		!WantsJSON(packed, Header{"Content-Type": {"application/json"}}) {
		t.Error("the header does not say which it is")
	}
}
