package serve

import (
	"context"
	"log/slog"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/tip"
)

// A hub that stands by while a copy of its journal leads settles nothing, though its own file is the first:
// an agent that it answered would not tell the copy, which the treasury believes as soon as it speaks.
func TestNothingIsSettledBesideACopyThatLeads(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	tn := newTown(t)
	held := make(chan bus.Dispatch, 1)
	tn.agent("a-1", 4, func(d bus.Dispatch) bool {
		tn.publish(bus.TakenSubject("math", "x", "a-1"), "", &bus.DispatchReply{Agent: "a-1", Hold: d.Hold})
		held <- d
		return false
	})
	first, stop := tn.hub(nil)
	tn.publish(bus.HubTaskSubject("math", "door"), bus.InboxOf("door")+".nowhere", request("t"))
	d := <-held
	bustest.Eventually(t, "the hold is durable", func() bool { return first.Stats().Holds == 1 })
	if err := stop(); err != nil {
		t.Fatal(err)
	}
	to := filepath.Join(filepath.Dir(tn.dir), "copy")
	if out, err := exec.Command("cp", "-a", tn.dir, to).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	twin, err := New(testConfig(), Deps{Bus: called{tn.world.Bus("twin"), "hub-math"},
		Registry: tn.world.Registry(), Journal: tn.journal("copy"), Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	ctx, end := context.WithCancel(context.WithoutCancel(t.Context()))
	ended := make(chan error, 1)
	go func() { ended <- twin.Run(ctx) }()
	t.Cleanup(func() { end(); <-ended })
	bustest.Eventually(t, "the copy leads", twin.Leading)
	own, halt, _ := tn.start(tn.world.Registry(), tn.journal(filepath.Base(tn.dir)), nil)
	defer halt.stop()
	bustest.Eventually(t, "the first stands by", func() bool { return own.Stats().Awaited == 1 })
	data, err := bus.Encode(served("a-1", d))
	if err != nil {
		t.Fatal(err)
	}
	tell := func() (ack bus.CompletionAck, err error) {
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		m, err := tn.bus.Request(ctx, bus.Msg{Subject: bus.CompletionSubject("math", "a-1"), Data: data})
		if err == nil {
			err = bus.Decode(m.Data, &ack)
		}
		return ack, err
	}
	if ack, err := tell(); err == nil {
		t.Errorf("what was served is settled beside the copy that leads: %+v", ack)
	}
	tn.mu.Lock()
	tn.mark = &tip.Mark{Journal: tip.SumOf([]byte("treasury")), Seq: 1, Sum: tip.SumOf([]byte("frame"))}
	tn.mu.Unlock()
	bustest.Eventually(t, "the copy is believed", func() bool { return twin.doubts().Why == "" })
	if ack, err := tell(); err != nil || ack.Code != "" || twin.Stats().Holds != 0 || own.Stats().Holds != 1 {
		t.Errorf("the copy settles it: %+v, %v; %d of its holds are open, and %d of the first's", ack, err,
			twin.Stats().Holds, own.Stats().Holds)
	}
}
