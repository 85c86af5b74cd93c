package vllmsim

import (
	"net"
	"runtime"
	"testing"
	"time"
)

// A server that starts again waits for a port that somebody took meanwhile.
func TestAPortThatIsTakenForAMoment(t *testing.T) {
	s, err := New(Config{Model: "m", Profile: Instant})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.Close() })
	if err := s.Start("127.0.0.1:0"); err != nil {
		t.Fatal(err)
	}
	addr := s.addr.String()
	_ = s.http.Close()
	var taken net.Listener
	for deadline := time.Now().Add(time.Minute); taken == nil; runtime.Gosched() { // it is closed soon
		if taken, err = net.Listen("tcp", addr); err != nil && time.Now().After(deadline) {
			t.Fatal(err)
		}
	}
	again := make(chan error)
	go func() { again <- s.Restart(0) }()
	select {
	case err := <-again:
		t.Fatalf("it is up beside another, or gave up at once: %v", err)
	case <-time.After(listensWithin / 20):
	}
	_ = taken.Close()
	if err := <-again; err != nil {
		t.Fatal(err)
	}
}
