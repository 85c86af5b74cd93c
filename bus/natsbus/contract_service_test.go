package natsbus_test

import (
	"encoding/json"
	"errors"
	"testing"

	"souk/bus"
	"souk/bus/bustest"
)

// found holds the fields of a service's discovery that the test needs.
type found struct {
	Type, Name, ID, Version string
	Endpoints               []struct {
		Name, Subject string
		Queue         string `json:"queue_group"`
		Requests      int64  `json:"num_requests"`
	}
}

func ask(t *testing.T, b bus.Bus, subject string) found {
	t.Helper()
	m, err := b.Request(bustest.Within(t), bus.Msg{Subject: subject})
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	var f found
	if err := json.Unmarshal(m.Data, &f); err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return f
}

func echoService(b bus.Bus) bus.Service {
	return bus.Service{
		Name: "echo", Version: "1.2.3", Description: "says it again",
		Endpoints: []bus.Endpoint{
			{Name: "say", Subject: "say.*", Handle: func(m bus.Msg) {
				data := append([]byte(bus.LastToken(m.Subject)+" "), m.Data...)
				go b.Publish(bus.Msg{Subject: m.Reply, Data: data}) // from any goroutine
			}},
			{Name: "other", Subject: "other", Queue: "own", Handle: func(bus.Msg) {}},
		},
	}
}

// discovered says what a bus must do whose services answer NATS' tools as well.
func discovered(t *testing.T, n network) {
	asker := served(t, n)
	ping := ask(t, asker, "$SRV.PING")
	if ping.Type != "io.nats.micro.v1.ping_response" || ping.Name != "echo" || ping.Version != "1.2.3" ||
		ping.ID == "" {
		t.Errorf("PING says %+v", ping)
	}
	for _, who := range []string{"", ".echo", ".echo." + ping.ID} {
		info := ask(t, asker, "$SRV.INFO"+who)
		if len(info.Endpoints) != 2 || info.Endpoints[0].Name != "say" ||
			info.Endpoints[0].Subject != "say.*" || info.Endpoints[0].Queue != "q" ||
			info.Endpoints[1].Queue != "own" {
			t.Errorf("INFO%s says %+v", who, info)
		}
	}
	for _, verb := range []string{"PING", "INFO", "STATS"} {
		said := make(chan bus.Msg, 9)
		sub, err := asker.Subscribe("elsewhere.*", "", func(m bus.Msg) { said <- m })
		if err != nil {
			t.Fatal(err)
		}
		for _, who := range []string{"", ".echo", ".echo." + ping.ID} {
			asker.Publish(bus.Msg{Subject: "$SRV." + verb + who, Reply: "elsewhere.x"})
			ask(t, asker, "$SRV."+verb+who) // the answer to which comes after
		}
		flushed(t, asker)
		if sub.Stop(); len(said) > 0 {
			t.Errorf("%s is answered to %s, which is no inbox", verb, (<-said).Subject)
		}
	}
	bustest.Eventually(t, "STATS counts the request", func() bool {
		stats := ask(t, asker, "$SRV.STATS.echo")
		return len(stats.Endpoints) == 2 && stats.Endpoints[0].Requests == 1 &&
			stats.Endpoints[1].Requests == 0
	})
}

// served has a service answer a request, and returns who asked.
func served(t *testing.T, n network) (asker bus.Bus) {
	asker, server := join(t, n, "asker"), join(t, n, "server")
	s, err := server.Serve(echoService(server))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Stop() })
	flushed(t, server)
	m, err := asker.Request(bustest.Within(t), bus.Msg{Subject: "say.ada", Data: []byte("hi")})
	if err != nil || string(m.Data) != "ada hi" {
		t.Fatalf("got %q, %v", m.Data, err)
	}
	return asker
}

func serviceStops(t *testing.T, n network) {
	asker, server := join(t, n, "asker"), join(t, n, "server")
	if _, err := server.Serve(bus.Service{Name: "no dots. or spaces", Version: "1.0.0"}); err == nil {
		t.Error("a service with a bad name was taken")
	}
	s, err := server.Serve(echoService(server))
	if err != nil {
		t.Fatal(err)
	}
	flushed(t, server)
	if err := s.Stop(); err != nil {
		t.Fatal(err)
	}
	flushed(t, server)
	for _, subject := range []string{"say.ada", "$SRV.PING.echo"} {
		bustest.Eventually(t, subject+" is gone", func() bool {
			_, err := asker.Request(bustest.Within(t), bus.Msg{Subject: subject})
			return errors.Is(err, bus.ErrNoResponders)
		})
	}
}
