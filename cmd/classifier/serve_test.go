package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	clientv3 "go.etcd.io/etcd/client/v3"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/bustest/servers"
	"souk/bus/etcdreg"
	"souk/bus/natsbus"
	"souk/cmd/daemon"
)

// The whole command before real servers: it is discovered, asked in JSON by a plain NATS client, hands the
// task to a hub, and ends when told to.
func TestServe(t *testing.T) {
	ns, etcd := servers.Start(t)
	path := filepath.Join(t.TempDir(), "classifier.yaml")
	config := fmt.Sprintf("market: {nats: %q, etcd: [%q]}\nclassifier: {id: front, drain: 2s}\n", ns.URL,
		etcd.Endpoint())
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	code := make(chan int, 1)
	go func() {
		code <- daemon.Run(ctx, daemon.Command(role()), []string{"--config", path}, os.Stdout, os.Stderr)
	}()

	b, err := natsbus.Connect(natsbus.Config{URL: ns.URL, Name: "hub"})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	registry, err := etcdreg.FromClient(etcd.Client)
	if err != nil {
		t.Fatal(err)
	}
	defer registry.Close()
	value, err := bus.EncodeEntry(&bus.HubEntry{Domain: "maths", Labels: []string{"math"}, Hub: "h",
		Journal: "j"})
	if err != nil {
		t.Fatal(err)
	}
	lead, err := registry.Elect(ctx, bus.HubKey("maths"), value, 10*time.Second)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Subscribe(bus.HubTaskSubject("maths", "*"), "", func(m bus.Msg) {
		var task bus.Task
		if err := bus.Decode(m.Data, &task); err != nil {
			t.Errorf("the hub got %v", err)
			return
		}
		data, err := bus.Encode(&bus.Answer{Accepted: &bus.Accepted{Client: task.Client, Task: task.ID,
			Hub: "maths", Agent: "a", Model: "m", Reply: task.Reply, Round: 1}})
		if err != nil {
			t.Error(err)
		}
		b.Publish(bus.Msg{Subject: m.Reply, Data: data})
	}); err != nil {
		t.Fatal(err)
	}
	status, err := bus.Encode(&bus.Status{Domain: "maths", Labels: []string{"math"}, Epoch: lead.Epoch(),
		Agents: 1, Slots: 1, Free: 1, Room: 1,
		Models: []bus.ModelStatus{{Model: "m", Agents: 1, Free: 1}}})
	if err != nil {
		t.Fatal(err)
	}

	nc, err := nats.Connect(ns.URL, nats.CustomInboxPrefix(bus.InboxOf("ada")),
		nats.Timeout(bustest.Patience))
	if err != nil {
		t.Fatal(err)
	}
	defer nc.Close()
	const body = `{"stream":true,"messages":[{"role":"user","content":"Tom has 4 boxes of 6 eggs each. How many eggs does he have?"}]}`
	var answer map[string]any
	for deadline := time.Now().Add(time.Minute); ; {
		b.Publish(bus.Msg{Subject: bus.StatusSubject("maths"), Data: status})
		m, err := nc.Request(bus.TaskSubject("ada", ""), []byte(body), time.Second)
		if err == nil {
			if err := json.Unmarshal(m.Data, &answer); err != nil {
				t.Fatalf("answer %q: %v", m.Data, err)
			}
			if answer["hub"] == "maths" {
				break
			}
		}
		if time.Now().After(deadline) {
			t.Fatalf("no hub accepted in a minute: %v, %v", answer, err)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case c := <-code:
			t.Fatalf("the command ended with %d", c)
		}
	}
	if reply, _ := answer["reply"].(string); !strings.HasPrefix(reply, "souk.v1.reply.ada.") {
		t.Errorf("accepted as %v", answer)
	}
	stop()
	select {
	case c := <-code:
		if c != daemon.ExitOK {
			t.Errorf("exit code %d, want %d", c, daemon.ExitOK)
		}
	case <-time.After(time.Minute):
		t.Error("it did not end")
	}
}

// A second door of one id ends, and says what to do; one that was killed is waited for, no longer than its
// lease, and no other.
func TestTheOnlyDoorOfItsID(t *testing.T) {
	if testing.Short() {
		t.Skip("waits for seconds")
	}
	ns, etcd := servers.Start(t)
	path := filepath.Join(t.TempDir(), "classifier.yaml")
	config := fmt.Sprintf("market: {nats: %q, etcd: [%q]}\nclassifier: {id: front, drain: 1s}\n", ns.URL,
		etcd.Endpoint())
	if err := os.WriteFile(path, []byte(config), 0o600); err != nil {
		t.Fatal(err)
	}
	killed, err := etcd.Client.Grant(t.Context(), 60) // nobody keeps it alive
	if err != nil {
		t.Fatal(err)
	}
	if _, err := etcd.Client.Put(t.Context(), bus.DoorKey("front"),
		`{"pid":7,"host":"node-9","started":"2026-01-02T03:04:05Z"}`, clientv3.WithLease(killed.ID)); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	var first, second bustest.Buffer
	code := make(chan int, 1)
	go func() {
		code <- daemon.Run(ctx, daemon.Command(role()), []string{"--config", path}, io.Discard, &first)
	}()
	bustest.Eventually(t, "it is waited for",
		func() bool { return strings.Contains(first.String(), "waiting to be the market's only door") })
	if _, err := etcd.Client.Revoke(t.Context(), killed.ID); err != nil { // as at its end
		t.Fatal(err)
	}
	bustest.Eventually(t, "the door is open",
		func() bool { return strings.Contains(first.String(), "door open") })
	if said := first.String(); strings.Count(said, "waiting to be the market's only door front: ") != 1 ||
		!strings.Contains(said, "process 7 on node-9, started 2026-01-02T03:04:05Z") {
		t.Errorf("after one that was killed it says\n%s", said)
	}
	var holder map[string]any
	if out, err := etcd.Client.Get(t.Context(), bus.DoorKey("front")); err != nil || out.Count != 1 ||
		json.Unmarshal(out.Kvs[0].Value, &holder) != nil {
		t.Fatalf("who is the door: %v, %v", out, err)
	}
	within, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c := daemon.Run(within, daemon.Command(role()), []string{"--config", path}, io.Discard, &second)
	if c != daemon.ExitWrong ||
		!strings.Contains(second.String(), fmt.Sprintf("\nclassifier: the market has a door front already, "+
			"process %d on ", os.Getpid())) ||
		!strings.HasSuffix(second.String(), ": stop that one, or give this one an id and creds of its own: "+
			"classifier.id, and souk auth add door NAME\n") {
		t.Errorf("a second one: exit code %d\n%s", c, &second)
	}
	stop()
	if c := bustest.Receive(t, "the end", code); c != daemon.ExitOK {
		t.Errorf("exit code %d\n%s", c, &first)
	}
	if out, err := etcd.Client.Get(t.Context(), bus.DoorKey("front")); err != nil || out.Count > 0 {
		t.Errorf("its key is left: %v, %v", out, err)
	}
	life, _ := holder["life"].(string)
	began := strings.LastIndexByte(life, '-')
	if began < 0 {
		t.Skip("this system does not tell when a process began")
	}
	// one of the same machine and number, which began earlier, was killed: nobody waits for its lease
	holder["life"] = life[:began] + "-1"
	long, err := etcd.Client.Grant(t.Context(), 60)
	value, _ := json.Marshal(holder)
	if err == nil {
		_, err = etcd.Client.Put(t.Context(), bus.DoorKey("front"), string(value),
			clientv3.WithLease(long.ID))
	}
	if err != nil {
		t.Fatal(err)
	}
	var third bustest.Buffer
	ctx, stop = context.WithCancel(t.Context())
	defer stop()
	go func() {
		code <- daemon.Run(ctx, daemon.Command(role()), []string{"--config", path}, io.Discard, &third)
	}()
	bustest.Eventually(t, "the door is open again",
		func() bool { return strings.Contains(third.String(), "door open") })
	if said := third.String(); strings.Contains(said, "waiting to be") ||
		!strings.Contains(said, "the lease of an earlier life of this door front is ended") {
		t.Errorf("after an earlier life on this machine it says\n%s", said)
	}
	stop()
	bustest.Receive(t, "the end", code)
}
