package main

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"souk/bus/etcdreg"
	"souk/bus/natsauth"
	"souk/cmd/local"
)

// registry says where a command finds the market's etcd.
type registry struct {
	etcd  []string
	files natsauth.Files
	found bool // the market of --data has it
}

// flags adds --etcd, and those of the files that it is shown.
func (r *registry) flags(to *pflag.FlagSet) {
	to.StringSliceVar(&r.etcd, "etcd", nil,
		"host:port of the etcd of a market of daemons or containers; without, the market of --data is meant "+
			"(environment: SOUK_MARKET_ETCD)")
	for _, f := range []struct {
		to         *string
		name, says string
	}{{&r.files.CA, "ca", "file of the CA of that etcd"},
		{&r.files.Cert, "cert", "file of the operator's certificate"}, {&r.files.Key, "key", "file of its key"}} {
		from := "SOUK_MARKET_" + strings.ToUpper(f.name)
		to.StringVar(f.to, f.name, os.Getenv(from), f.says+"; without, those of DATA/auth (environment: "+from+")")
	}
}

// dial connects to the etcd that is named, else to that of the market of data. probe is a key that is to be
// read there.
func (r *registry) dial(c *cobra.Command, data, probe string) (*etcdreg.Registry, error) {
	if f := c.Flags(); !f.Changed("etcd") && !f.Changed("data") && os.Getenv("SOUK_MARKET_ETCD") != "" {
		r.etcd = strings.Split(os.Getenv("SOUK_MARKET_ETCD"), ",")
	}
	if len(r.etcd) == 0 {
		state, err := local.ReadState(data)
		if errors.Is(err, local.ErrNoMarket) {
			err = fmt.Errorf("%w; one of services or containers is reached by --etcd HOST:PORT", err)
		}
		if err != nil {
			return nil, err
		}
		r.etcd, r.found = []string{strings.TrimPrefix(state.Etcd, "https://")}, true
	}
	at := etcdreg.Config{Endpoints: r.etcd, Probe: probe}
	var err error
	if r.files == (natsauth.Files{}) {
		if r.files, err = local.OperatorFiles(data); err != nil {
			return nil, err
		}
	}
	if r.files != (natsauth.Files{}) {
		if at.TLS, err = natsauth.TLSOf(r.files); err != nil {
			return nil, err
		}
	}
	return etcdreg.Dial(c.Context(), at)
}

// registryWithin bounds what one command does in the registry.
const registryWithin = 10 * time.Second
