package integration

import (
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/nats-io/nats.go"

	"souk/bus"
	"souk/bus/bustest"
)

// D2: an agent that learns of every answer says more than who serves it, each time: chunks, ends, heartbeats
// that name another agent, an acceptance. Nothing of it is read, by who reads a stream or by the door that
// collects.
func TestForgedChunksAreNotRead(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	m := start(t, two, hard)
	eve := rawOf(t, m, bus.RoleAgentd, bus.IDs{Name: "agentd-eve", Agents: []string{"eve"}})
	var forged, heard, ends atomic.Int64
	say := func(subject string, v bus.Message) {
		data, err := bus.Encode(v)
		if err == nil {
			err = eve.Publish(subject, data)
		}
		if errors.Is(err, nats.ErrConnectionClosed) { // the last answers are heard while the test ends
			return
		}
		if err != nil {
			t.Error(err)
		}
		forged.Add(1)
	}
	hear := func(msg *nats.Msg) {
		var c bus.Chunk
		sender := bus.LastToken(msg.Subject)
		if sender == "eve" || sender == "general" || bus.Decode(msg.Data, &c) != nil {
			return
		}
		as := strings.TrimSuffix(msg.Subject, sender) + "eve"
		for attempt := range 2 {
			for ahead := range uint64(3) {
				say(as, &bus.Chunk{Task: c.Task, Attempt: attempt, Seq: c.Seq + ahead, Text: "forged",
					Tokens: []uint32{7}, Count: 1})
			}
			say(as, &bus.Chunk{Task: c.Task, Attempt: attempt, Seq: c.Seq, Heartbeat: true, Agent: "eve"})
			say(as, &bus.Chunk{Task: c.Task, Attempt: attempt, Seq: c.Seq + 1,
				Result: &bus.Result{Client: "dev", Task: c.Task, Agent: "eve", Text: "forged",
					Chunks: c.Seq + 1}})
		}
		say(as, &bus.Answer{Accepted: &bus.Accepted{Client: "dev", Task: c.Task, Hub: "eve", Agent: "eve"}})
		heard.Add(1)
		if c.Result != nil {
			ends.Add(1)
		}
	}
	for role, name := range map[bus.Role]string{bus.RoleGateway: "souk-market", bus.RoleDoor: "door"} {
		ear := rawOf(t, m, role, bus.IDs{Name: name})
		_, err := ear.Subscribe(bus.ReplySubject(name, "*", "*"), hear)
		if err == nil {
			err = ear.Flush()
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	turn := hard.Turns[0]
	a, err := m.Ask(t.Context(), chat(turn.User))
	if err != nil || a.Text != turn.Answer || a.Result.Code != "" || a.Result.Agent == "eve" {
		t.Errorf("read %q, want %q; %+v %v", a.Text, turn.Answer, a.Result, err)
	}
	r := request(t, rawAs(t, m, "dev"), bus.TaskSubject("dev", ""), string(chat(turn.User).Body))
	if r.Text != turn.Answer || r.Code != "" || r.Agent == "eve" {
		t.Errorf("collected %q, want %q; %+v", r.Text, turn.Answer, r)
	}
	// How many chunks an answer has is a matter of time. To each of them, and to both ends, she said eleven.
	bustest.Eventually(t, "eve hears both ends", func() bool { return ends.Load() >= 2 })
	if n := heard.Load(); n < int64(a.Result.Chunks)+2 || a.Result.Chunks == 0 || forged.Load() < 11*n {
		t.Errorf("to %d messages, of %d chunks and two ends, %d were said", n, a.Result.Chunks, forged.Load())
	}
}
