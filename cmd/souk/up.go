package main

import (
	"cmp"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"souk/agentd"
	"souk/bus"
	"souk/classifier"
	"souk/cmd/console"
	"souk/cmd/local"
	"souk/cmd/web"
)

// marketFlags say which market to bring up.
type marketFlags struct {
	config  string
	listen  string
	vllm    []string
	vllmRow string
}

func (f *marketFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&f.config, "config", "",
		"market to bring up, as YAML (see souk up --print-config); default: eight simulated agents in "+
			"three domains")
	c.Flags().StringVar(&f.listen, "listen", "",
		"address of the NATS server, loopback only (default 127.0.0.1:4222, or any free port where that "+
			"is taken)")
	c.Flags().StringArrayVar(&f.vllm, "vllm", nil,
		"base URL of a running server (vLLM, SGLang, llama.cpp, Ollama, TGI, LMDeploy), to sell all names that it "+
			"serves instead of the simulated engines; may be repeated, also as --engine; where it wants a key, set "+
			vllmKey)
	c.Flags().StringVar(&f.vllmRow, "vllm-price-row", local.DefaultRow,
		"published price row (provider/model) for the servers named by --vllm")
	c.Flags().SetNormalizeFunc(func(_ *pflag.FlagSet, name string) pflag.NormalizedName {
		return pflag.NormalizedName(cmp.Or(map[string]string{"engine": "vllm"}[name], name))
	})
}

// vllmKey is the variable from which vLLM itself takes a server's key.
const vllmKey = "VLLM_API_KEY"

// load reads the market's configuration.
func (f *marketFlags) load() (local.Config, error) {
	c := local.Default()
	if f.config != "" {
		var err error
		if c, err = local.LoadConfig(f.config); err != nil {
			return c, err
		}
	}
	if len(f.vllm) > 0 {
		asked := map[string]bool{}
		for _, base := range f.vllm {
			err := agentd.CheckURL(base)
			if root := strings.TrimRight(base, "/"); err == nil && asked[root] {
				err = fmt.Errorf("%s stands twice", bus.Redact(root))
			} else {
				asked[root] = true
			}
			if err != nil {
				return c, fmt.Errorf("--vllm: %w", err)
			}
		}
		if _, err := local.Card(f.vllmRow); err != nil {
			return c, fmt.Errorf("--vllm-price-row: %w", err)
		}
		c = c.WithEngines(f.vllm, f.vllmRow, strings.TrimSpace(os.Getenv(vllmKey)))
	}
	if f.listen != "" {
		c.Listen = f.listen
	}
	return c, c.Validate()
}

func upCommand(s *shared) *cobra.Command {
	var f marketFlags
	var show bool
	at := web.DefaultListen
	c := &cobra.Command{
		Use:   "up",
		Short: "Bring a market up: NATS, etcd, treasury, door, gateway, hubs and agents in this process",
		Long: `Brings a whole market up in this process and stays until Ctrl-C.

It listens on loopback and, unless its file says otherwise of the gateway, nowhere else: NATS, the gateway
http://127.0.0.1:8080/v1 for clients of OpenAI's API, and the web console. All ask who is there. The keys are made in DATA/auth at
the first start, with creds and a key of the client dev, whose paths are printed; commands on the same data
directory find or make what they need. A second start on it goes on where the first one ended; a second market
on it at the same time is refused.`,
		Example: `  souk up
  souk up --print-config > market.yaml && souk up --config market.yaml
  souk up --vllm http://127.0.0.1:8000 --data /tmp/souk`,
		Args: console.Takes(0, 0),
		RunE: func(c *cobra.Command, _ []string) error {
			if show {
				fmt.Fprint(c.OutOrStdout(), local.DefaultYAML())
				return nil
			}
			cfg, err := f.load()
			if err != nil {
				return err
			}
			log, err := s.logger(c.ErrOrStderr())
			if err != nil {
				return err
			}
			begin := time.Now()
			m, err := local.Start(c.Context(), local.Options{Dir: s.data, Config: cfg, Log: log,
				Patient: true})
			if err != nil {
				return err
			}
			out := c.OutOrStdout()
			fmt.Fprintf(out, "The market is up after %.2f s: %s, data in %s.\n%s\n",
				time.Since(begin).Seconds(), m.State.NATS, s.data, elsewhere(m.Config, m.State))
			agentTable(out, m.Config)
			if m.KeyFile != "" {
				fmt.Fprintf(out, "\nOpenAI's clients:  base URL %s/v1, the key of %s is in %s\n",
					m.State.HTTP, local.FirstClient, m.KeyFile)
			}
			if m.CredsFile != "" {
				fmt.Fprintf(out, "Clients of NATS:   %s, the creds of %s are in %s\n", m.State.NATS,
					local.FirstClient, m.CredsFile)
			}
			on, err := s.consoleOf(at, m, log)
			if err != nil {
				return errors.Join(err, m.Close())
			}
			if on != nil {
				fmt.Fprint(out, s.consoleAt(on))
			}
			fmt.Fprintf(out, "\nAsk it something:  %s\nStop it:           Ctrl-C (a second one kills)\n",
				s.line(`submit "What is a souk?"`))
			select {
			case <-c.Context().Done():
				fmt.Fprintf(c.ErrOrStderr(), "stopping: tasks that run may end; answers over HTTP are cut "+
					"after %s\n", local.StopWithin/local.HTTPShare)
			case <-m.Failed():
			}
			if on != nil {
				err = on.Close()
			}
			err = errors.Join(err, m.Err(), m.Close())
			fmt.Fprintln(out, atTheDoor(m.Door.Stats()))
			return err
		},
	}
	f.add(c)
	c.Flags().StringVar(&at, "console", at,
		"address of the web console, loopback only; another port where that one is taken; \"\": none (souk console "+
			"serves one beyond this machine)")
	c.Flags().BoolVar(&show, "print-config", false, "print the default market as YAML, and end")
	return c
}

// consoleOf starts the console of a market that runs in this process; nil where none is wanted. A market
// without fixed ports has it at any.
func (s *shared) consoleOf(listen string, m *local.Market, log *slog.Logger) (*web.Server, error) {
	if listen == "" {
		return nil, nil
	}
	if _, port, err := net.SplitHostPort(m.Config.Listen); err == nil && port == "0" {
		listen = "127.0.0.1:0"
	}
	at, err := m.Lookout()
	if err != nil {
		return nil, err
	}
	return s.startConsole(web.Config{Listen: listen, AnyPort: true, Journals: s.data,
		Gateway: m.State.HTTP}, at, log)
}

// atTheDoor sums up what came to the market, and what was refused for which reason.
func atTheDoor(s classifier.Stats) string {
	line := fmt.Sprintf("%d requests came: agents took %d as streams, %d were answered whole",
		s.Received-s.Repeated, s.Accepted, s.Collected)
	for i, code := range slices.Sorted(maps.Keys(s.Refused)) {
		line += fmt.Sprintf("%s%s %d", [...]string{"; refused ", ", "}[min(i, 1)], code, s.Refused[code])
	}
	return line + "."
}

// elsewhere says that the market has not the ports that it was to have; "" where it has.
func elsewhere(c local.Config, at local.State) (said string) {
	for _, x := range []struct{ want, has, why string }{
		{c.Listen, at.NATS, "another market, or a NATS server, has it"},
		{c.HTTPAddress(), at.HTTP, "clients over HTTP find the market at " + at.HTTP},
	} {
		_, port, _ := net.SplitHostPort(x.want)
		if x.want != "" && port != "0" && !strings.HasSuffix(x.has, ":"+port) {
			said += fmt.Sprintf("%s was taken: %s.\n", x.want, x.why)
		}
	}
	return said
}

// line is a command to paste, with the data directory where it is not the default.
func (s *shared) line(rest string) string {
	if s.data == "souk-data" {
		return "bin/souk " + rest
	}
	return fmt.Sprintf("bin/souk --data %s %s", s.data, rest)
}
