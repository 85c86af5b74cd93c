package vllm

import (
	"testing"

	"go.uber.org/goleak"
)

// No answer, however it ended, leaves a goroutine or a connection behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }
