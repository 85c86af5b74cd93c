package etcdreg_test

import (
	"strings"
	"testing"

	"souk/bus/etcdreg"
)

func TestOtherMachinesAreReachedByTLSAlone(t *testing.T) {
	for _, at := range []string{"192.0.2.1:2379", "etcd.example.invalid:2379", "http://192.0.2.1:2379"} {
		_, err := etcdreg.Dial(t.Context(), etcdreg.Config{Endpoints: []string{"127.0.0.1:1", at}})
		if err == nil || !strings.Contains(err.Error(), "may only be reached by TLS") {
			t.Errorf("%s: %v", at, err)
		}
	}
}
