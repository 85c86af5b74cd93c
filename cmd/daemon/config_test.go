package daemon

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"souk/bus"
	"souk/bus/regular"
	"souk/market"
)

// fair is a daemon made up for these tests, with a field of every sort.
type fair struct {
	Common `yaml:",inline"`
	Market Market `yaml:"market"`
	Fair   struct {
		Name   string         `yaml:"name"`
		Open   time.Duration  `yaml:"open"`
		Fee    market.Credits `yaml:"fee"`
		Stalls []stall        `yaml:"stalls"`
		Days   []string       `yaml:"days"`
		Rain   bool           `yaml:"rain"`
		APIKey string         `yaml:"api_key"`
	} `yaml:"fair"`

	ids bus.IDs
}

func (f *fair) IDs() bus.IDs { return f.ids }

type stall struct {
	Sells string       `yaml:"sells"`
	Rows  int          `yaml:"rows"`
	Price market.Price `yaml:"price"`
}

func newFair() *fair {
	f := &fair{Common: Default(), Market: DefaultMarket()}
	f.Fair.Open = 8 * time.Hour
	return f
}

func (f *fair) Complete() error {
	var errs []error
	if f.Fair.Name == "" {
		errs = append(errs, errors.New("name: not set"))
	}
	for i, s := range f.Fair.Stalls {
		if s.Rows < 1 {
			errs = append(errs, fmt.Errorf("stalls[%d].rows: %d: want at least 1", i, s.Rows))
		}
	}
	return errors.Join(append(errs, f.Market.Validate())...)
}

func (f *fair) Drain() time.Duration { return 2 * time.Second }

const fairFile = `fair:
  name: autumn
  open: 6h
  stalls:
    - {sells: figs, rows: 2, price: {miss: 0.1, hit: 0.05, out: 1}}
    - sells: rugs
      rows: 1
`

// What was written wrongly is answered with its place and with what to write.
func TestWhatToWriteInstead(t *testing.T) {
	for _, c := range []struct{ name, from, to, want string }{
		{"a letter off", "rows: 1", "rwos: 1",
			`fair.yaml:7: unknown field "fair.stalls[1].rwos": write rows`},
		{"a field of another place", "  name: autumn", "  name: autumn\n  rows: 3",
			`fair.yaml:3: unknown field "fair.rows": its place is fair.stalls.rows`},
		{"nothing like it", "  name: autumn", "  name: autumn\n  weather: 3",
			`fair.yaml:3: unknown field "fair.weather": fair has name, open, fee, stalls, days, rain, api_key`},
		{"too little like it", "  name: autumn", "  name: autumn\n  pay_key: 3",
			`fair.yaml:3: unknown field "fair.pay_key": fair has name, open, fee, stalls, days, rain, api_key`},
		{"a section off", "fair:", "log: {level: info}\nfaire:",
			`fair.yaml:2: unknown field "faire": write fair`},
		{"in the price", "miss:", "mis:",
			`fair.yaml:5: unknown field "fair.stalls[0].price.mis": write miss`},
		{"another daemon's file", "fair:", "hub:",
			"fair.yaml:1: section \"hub\": this file is for another command: run `hub --config "},
		{"the file of a cluster", "fair:", "engines: [8001]\nfair:",
			"fair.yaml:1: section \"engines\": this file is for another command: run `souk cluster " +
				"--config fair.yaml`"},
		{"a value of the wrong kind", "rows: 1", "rows: many",
			`fair.yaml:7: fair.stalls[1].rows: "many": write a whole number`},
		{"no unit", "open: 6h", "open: 10",
			`fair.yaml:3: fair.open: "10": write a duration with its unit, as 10s or 1m30s`},
		{"no duration", "open: 6h", "open: six hours",
			`fair.yaml:3: fair.open: "six hours": write a duration with its unit, as 10s or 1m30s`},
		{"no amount", "miss: 0.1", "miss: 1 credit",
			`fair.yaml:5: fair.stalls[0].price.miss: "1 credit": bad amount`},
		{"too fine an amount", "miss: 0.1", "miss: 0.1234567891",
			`fair.yaml:5: fair.stalls[0].price.miss: "0.1234567891": bad amount`},
		{"neither true nor false", "open: 6h", "rain: maybe",
			`fair.yaml:3: fair.rain: "maybe": write true or false`},
		{"one for a list", "open: 6h", "days: sat", `fair.yaml:3: fair.days: "sat": write a list, as [a, b]`},
		{"one for a section", "fair:", "log: debug\nfair:",
			`fair.yaml:1: log: "debug": write its fields under it: level, format`},
		{"one for the file", fairFile, "some notes", `fair.yaml:1: the file: "some notes": write its ` +
			"fields under it: health, log, "},
		{"one for an item", "    - sells: rugs\n      rows: 1", "    - rugs",
			`fair.yaml:6: fair.stalls[1]: "rugs": write its fields under it: sells, rows, price`},
		{"several at once", "open: 6h", "open: 6\n  rain: maybe", `fair.yaml:4: fair.rain: "maybe"`},
		{"a field twice", "rows: 1", "rows: 1\n      rows: 2", "[8:7]"},
		{"no YAML", "fair:", "fair: [", "fair.yaml: ["},
		{"judged wrong", "rows: 1", "rows: 0", "fair.yaml:7: stalls[1].rows: 0: want at least 1"},
		{"judged wrong where nothing is written", "    - sells: rugs\n      rows: 1", "    - sells: rugs",
			"fair.yaml:6: stalls[1].rows: 0: want at least 1"},
		{"remote", "fair:", "market: {nats: \"nats://10.1.2.3:4222\"}\nfair:",
			`fair.yaml:1: market.nats: "10.1.2.3:4222" is not on loopback, and may only be reached by TLS: ` +
				"write tls://10.1.2.3:4222"},
		{"remote, one of two", "fair:", "market: {nats: \"tls://a:1,nats://b:2\"}\nfair:",
			`market.nats: "b:2" is not on loopback`},
		{"remote etcd", "fair:", "market: {etcd: [\"10.1.2.4:2379\"]}\nfair:",
			`fair.yaml:1: market.etcd: "10.1.2.4:2379" is not on loopback, and may only be reached by TLS: ` +
				"write the files that `souk auth` makes as market.ca, market.cert and market.key"},
		{"remote etcd, a CA alone", "fair:", "market: {etcd: [\"10.1.2.4:2379\"], ca: x}\nfair:",
			"market.etcd"},
		{"a certificate without its key", "fair:", "market: {cert: x}\nfair:",
			"fair.yaml:1: market.cert: it goes with key"},
		{"a key without its certificate", "fair:", "market: {key: x}\nfair:",
			"market.cert: it goes with key"},
		{"no address", "fair:", "market: {etcd: [here]}\nfair:",
			`fair.yaml:1: market.etcd: "here": write host:port`},
		{"impatient", "fair:", "market: {connect_within: 1ms}\nfair:",
			"market.connect_within: 1ms is not from 1s to 24h0m0s"},
	} {
		t.Run(c.name, func(t *testing.T) {
			text := strings.Replace(fairFile, c.from, c.to, 1)
			err := decode("fair", "fair.yaml", []byte(text), nil, newFair())
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("it says:\n%v\nwant:\n%s", err, c.want)
			}
		})
	}
}

// The environment comes before the file, the file before the default.
func TestPrecedence(t *testing.T) {
	f := newFair()
	environ := []string{"SOUK_FAIR_OPEN=90m", "SOUK_FAIR_STALLS_1_PRICE_OUT=2.5", "SOUK_FAIR_DAYS=sat, sun",
		"SOUK_FAIR_RAIN=true", "SOUK_FAIR_FEE=0.000000001",
		"SOUK_LOG_LEVEL=debug", "SOUK_MARKET_ETCD=127.0.0.1:1,127.0.0.1:2", "SOUK_VLLM_HOME=/elsewhere",
		"PATH=/bin"}
	if err := decode("fair", "fair.yaml", []byte(fairFile), environ, f); err != nil {
		t.Fatal(err)
	}
	if f.Fair.Open != 90*time.Minute || f.Fair.Stalls[1].Price.Out != 5*market.Credit/2 ||
		len(f.Fair.Days) != 2 || f.Fair.Days[1] != "sun" ||
		!f.Fair.Rain || f.Fair.Fee != 1 || f.Log.Level != "debug" || len(f.Market.Etcd) != 2 {
		t.Errorf("the environment was not heard: %+v", f)
	}
	if f.Fair.Name != "autumn" || f.Fair.Stalls[0].Rows != 2 {
		t.Errorf("the file was not heard: %+v", f)
	}
	if f.Log.Format != "text" || f.Market.NATS != DefaultMarket().NATS ||
		f.Stop.Within != 2*time.Second+stopMargin {
		t.Errorf("the defaults were lost: %+v", f)
	}
}

func TestBadEnvironment(t *testing.T) {
	for variable, want := range map[string]string{
		"SOUK_FAIR_OPEN=soon": "SOUK_FAIR_OPEN=\"soon\": cannot be read as fair.open: write a " +
			"duration with its unit, as 10s or 1m30s",
		"SOUK_FAIR_OPEN=10": "SOUK_FAIR_OPEN=\"10\": cannot be read as fair.open: write a " +
			"duration with its unit, as 10s or 1m30s",
		"SOUK_FAIR_OPNE=1h":          "SOUK_FAIR_OPNE: no field has this name: is it SOUK_FAIR_OPEN?",
		"SOUK_FAIR_WEATHER=1":        "SOUK_FAIR_WEATHER: no field has this name: unset it, or see fair --help",
		"SOUK_FAIR_STALLS_2_ROWS=1":  "SOUK_FAIR_STALLS_2_ROWS: no field has this name",
		"SOUK_FAIR_STALLS_0_ROWS=-4": "SOUK_FAIR_STALLS_0_ROWS: stalls[0].rows: -4",
		"SOUK_LOG_LEVEL=loud":        "SOUK_LOG_LEVEL: log.level: \"loud\"",
		"SOUK_STOP_WITHIN=1s":        "SOUK_STOP_WITHIN: stop.within: 1s is shorter",
		"SOUK_HEALTH_LISTEN=0.0.0.0": "SOUK_HEALTH_LISTEN: health.listen",
	} {
		err := decode("fair", "fair.yaml", []byte(fairFile), []string{variable}, newFair())
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: it says %v, want %s", variable, err, want)
		}
	}
}

// A cluster's file is the cluster's, though it has the sections of others.
func TestTheFileOfACluster(t *testing.T) {
	path := write(t, "infra: infra.yaml\nhub: [a.yaml]\nagentd: [b.yaml]\nengines: []\n")
	var cluster struct {
		Infra                string
		Hub, Agentd, Engines []string
	}
	if err := Load("engines", path, &cluster); err != nil {
		t.Error(err)
	}
	for _, daemon := range []string{"infra", "hub", "agentd", "classifier"} {
		if err := Load(daemon, path, &cluster); err == nil ||
			!strings.Contains(err.Error(), "run `souk cluster --config") {
			t.Errorf("%s: %v", daemon, err)
		}
	}
}

// All that is wrong is said at once.
func TestAllThatIsWrong(t *testing.T) {
	environ := []string{"SOUK_FAIR_OPEN=soon", "SOUK_FAIR_RAIN=perhaps", "SOUK_FAIR_OPNE=1h",
		"SOUK_LOG_LEVLE=info"}
	err := decode("fair", "fair.yaml", []byte(fairFile), environ, newFair())
	if n := strings.Count(fmt.Sprint(err), "SOUK_FAIR_OPEN=") +
		strings.Count(fmt.Sprint(err), "SOUK_FAIR_RAIN=") + strings.Count(fmt.Sprint(err),
		": no field has this name"); n != 4 {
		t.Errorf("%d of 4 variables are named: %v", n, err)
	}
	text := strings.NewReplacer("rows: 2", "rows: 0", "rows: 1", "rows: -1").Replace(fairFile) +
		"log: {level: loud, format: xml}\nmarket: {connect_within: 1ms}\n"
	err = decode("fair", "fair.yaml", []byte(text), nil, newFair())
	for _, want := range []string{"fair.yaml:5: stalls[0].rows: 0", "fair.yaml:7: stalls[1].rows: -1",
		"fair.yaml:8: log.level", "fair.yaml:8: log.format", "fair.yaml:9: market.connect_within"} {
		if !strings.Contains(fmt.Sprint(err), want) {
			t.Errorf("no %q in\n%v", want, err)
		}
	}
}

// An address beyond the machine is taken where TLS leads there.
func TestRemoteByTLS(t *testing.T) {
	f := newFair()
	text := fairFile + "market: {nats: \"tls://10.1.2.3:4222,tls://nats.example:4222\", " +
		"etcd: [\"10.1.2.4:2379\"], ca: ca.pem, cert: a.pem, key: a.key}\n"
	if err := decode("fair", "fair.yaml", []byte(text), nil, f); err != nil {
		t.Fatal(err)
	}
}

// What is shown reads back as the same, and shows no secret.
func TestEffective(t *testing.T) {
	f := newFair()
	if err := decode("fair", "fair.yaml", []byte(fairFile), []string{"SOUK_FAIR_API_KEY=sesame"},
		f); err != nil {
		t.Fatal(err)
	}
	text, err := Effective(f)
	if err != nil {
		t.Fatal(err)
	}
	if strings.Contains(string(text), "sesame") || !strings.Contains(string(text), "not shown") {
		t.Errorf("a secret is shown, or not hidden:\n%s", text)
	}
	again := newFair()
	if err := decode("fair", "effective", text, nil, again); err != nil {
		t.Fatalf("%v\n%s", err, text)
	}
	if again.Fair.Open != f.Fair.Open || again.Fair.Stalls[0] != f.Fair.Stalls[0] || again.Stop != f.Stop {
		t.Errorf("read back %+v, want %+v", again, f)
	}
}

func TestFilesThatCannotBeRead(t *testing.T) {
	if err := load("fair", filepath.Join(t.TempDir(), "none.yaml"), nil, newFair()); !errors.Is(err,
		os.ErrNotExist) {
		t.Errorf("a missing file: %v", err)
	}
	large := filepath.Join(t.TempDir(), "large.yaml")
	if err := os.WriteFile(large, make([]byte, MaxFile+1), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := load("fair", large, nil, newFair()); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("a large file: %v", err)
	}
	if err := load("fair", "/dev/zero", nil, newFair()); !errors.Is(err, regular.ErrNot) {
		t.Errorf("a device: %v", err)
	}
	if err := decode("fair", "fair.yaml", nil, nil, newFair()); err == nil ||
		!strings.Contains(err.Error(), "name: not set") {
		t.Errorf("an empty file: %v", err)
	}
}

// No text makes reading panic, and what is accepted can be shown and read again.
func FuzzDecode(f *testing.F) {
	for _, seed := range []string{fairFile, "", "fair: [", "fair: {stalls: 3}", "a: &a {b: *a}", "- 1",
		"fair: {<<: {name: x}}", "? [1]\n: 2", "fair: !!str x", "\x00", "fair:\n  stalls:\n    - - 1"} {
		f.Add([]byte(seed), "")
	}
	f.Add([]byte(fairFile), "SOUK_FAIR_STALLS=[{sells: a, rows: 1}]")
	f.Fuzz(func(t *testing.T, text []byte, variable string) {
		c := newFair()
		if decode("fair", "f", text, []string{variable}, c) != nil {
			return
		}
		if _, err := Effective(c); err != nil {
			t.Errorf("accepted, but cannot be shown: %v", err)
		}
	})
}

func TestDistance(t *testing.T) {
	for _, c := range []struct {
		a, b string
		want int
	}{{"", "", 0}, {"", "abc", 3}, {"abc", "abc", 0}, {"abc", "acb", 1}, {"max_opne", "max_open", 1},
		{"abcd", "bcd", 1}, {"kitten", "sitting", 3}} {
		if got := distance(c.a, c.b); got != c.want {
			t.Errorf("%q to %q: %d, want %d", c.a, c.b, got, c.want)
		}
		if distance(c.a, c.b) != distance(c.b, c.a) {
			t.Errorf("%q and %q: it depends on the order", c.a, c.b)
		}
	}
}
