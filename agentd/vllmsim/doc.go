// Package vllmsim is a stand-in for a vLLM server: the same wire, the same cache and the same scheduling,
// without a GPU.
//
// An engine is a step machine in engine.go, sequence.go and package kv: it reads no clock and does no I/O, so
// the same requests at the same times give the same run, in no time. server.go runs it by the clock and
// control.go makes it fail; request.go, check.go, wire.go and metrics.go read requests and write answers.
// profiles.go has the duration of a step, and PROFILES.md how far that is from measured servers.
// DIFFERENCES.md says where the stand-in is not like vLLM; the suite in integration/conformance holds it, and
// any real server, against recordings of vLLM 0.32.0.
//
//	s, err := vllmsim.New(vllmsim.Config{Model: "tiny", Profile: vllmsim.Instant})
//	err = s.Start("127.0.0.1:0")
//	defer s.Close()
//	http.Get(s.URL() + "/v1/models")
package vllmsim
