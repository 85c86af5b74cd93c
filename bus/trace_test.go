package bus

import (
	"testing"
)

const parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01"

func TestTraceTravelsInHeaders(t *testing.T) {
	want := Trace{Parent: parent, State: "vendor=1"}
	h := want.Header(nil)
	// NATS headers know case, and others look for lower case
	if len(h) != 2 || h["traceparent"][0] != parent {
		t.Fatalf("header %v", h)
	}
	if got := TraceOf(h); got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if got := TraceOf(Header{"Traceparent": {parent}}); got != (Trace{Parent: parent}) {
		t.Errorf("written by OpenTelemetry's own carrier: %+v", got)
	}
	kept := want.Header(Header{"X-Souk-Role": {"critic"}})
	if kept.Get("x-souk-role") != "critic" || TraceOf(kept) != want {
		t.Errorf("beside other headers: %v", kept)
	}
	if h := (Trace{}).Header(nil); h != nil {
		t.Errorf("no trace made the header %v", h)
	}
}

func TestMalformedTracesAreDropped(t *testing.T) {
	for _, bad := range []string{"", "00", "00-0-0-0",
		"00-00000000000000000000000000000000-00f067aa0ba902b7-01", "zz" + parent[2:], parent + parent} {
		if got := TraceOf(Header{"traceparent": {bad}}); got != (Trace{}) {
			t.Errorf("%q was taken as %+v", bad, got)
		}
	}
	if got := TraceOf(Header{"traceparent": {parent},
		"tracestate": {"=,="}}); got != (Trace{Parent: parent}) {
		t.Errorf("a malformed state: %+v", got)
	}
}
