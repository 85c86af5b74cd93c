package daemon

import (
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/http/pprof"
	"runtime"
	"time"
)

// Where memory goes is not sampled before somebody may read of it: that takes time of each allocation.
func init() { runtime.MemProfileRate = 0 }

const sampled = 512 << 10 // bytes between two samples, as Go has it

// ServeProfiles shows go tool pprof where the process's time and memory go, at an address on loopback, until
// stop. Without an address it does nothing.
func ServeProfiles(address string, log *slog.Logger) (stop func() error, err error) {
	if address == "" {
		return func() error { return nil }, nil
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("pprof: %w", err)
	}
	runtime.MemProfileRate = sampled
	mux := http.NewServeMux()
	mux.HandleFunc("/debug/pprof/", pprof.Index)
	mux.HandleFunc("/debug/pprof/profile", pprof.Profile)
	mux.HandleFunc("/debug/pprof/symbol", pprof.Symbol)
	mux.HandleFunc("/debug/pprof/trace", pprof.Trace)
	server := &http.Server{Handler: ByLoopbackName(mux), ReadHeaderTimeout: 5 * time.Second}
	go server.Serve(l)
	log.Info("profiles open", "at", "http://"+l.Addr().String()+"/debug/pprof/")
	return server.Close, nil
}
