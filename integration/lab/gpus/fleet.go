package gpus

import (
	_ "embed"
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"souk/agentd/vllmsim"
	"souk/integration/lab/virtual"
)

// unit are the engines of the fleet mixed, in the order in which a fleet grows by them: any eight that follow
// one another are four with 8B, two with 32B and two with 70B.
var unit = []string{"llama-8b-1", "qwen-32b-h100-1", "llama-8b-2", "llama-70b-h100-1", "llama-8b-3",
	"qwen-32b-rtx-1", "llama-8b-4", "llama-70b-b200-1"}

// hardware lists the GPUs of an engine, by its profile.
var hardware = map[string]struct {
	gpu   string
	count int
}{
	"rtxpro6000-llama-3.1-8b": {"RTX PRO 6000", 1},
	"rtxpro6000x2-qwen3-32b":  {"RTX PRO 6000", 2},
	"h100x2-qwen3-32b":        {"H100", 2},
	"h100x4-llama-3.1-70b":    {"H100", 4},
	"b200x4-llama-3.1-70b":    {"B200", 4},
}

// longest is the context of each engine, in tokens. Its cache is as large as its profile says.
const longest = 128 << 10

// Engine stands in a fleet, with its GPUs and what they cost.
type Engine struct {
	virtual.FleetEngine
	GPU     string
	Count   int     // of GPUs
	Dollars float64 // an hour
	tokens  int     // of its cache
	step    int     // tokens of prompts that it computes in one step, at most
	quick   int     // of these, after which a token beside them is not late
}

// engines are the first so many of a growing fleet.
func engines(n int, prices Prices) (all []Engine, err error) {
	mixed, err := virtual.FleetNamed("mixed")
	if err != nil {
		return nil, err
	}
	by := map[string]virtual.FleetEngine{}
	for _, e := range mixed.Engines {
		by[e.Name] = e
	}
	numbered := map[string]int{}
	for i := range n {
		e, ok := by[unit[i%len(unit)]]
		h, known := hardware[e.Profile]
		if !ok || !known {
			return nil, fmt.Errorf("fleet mixed: nobody knows the GPUs of engine %s", unit[i%len(unit)])
		}
		price, ok := prices[h.gpu]
		if !ok {
			return nil, fmt.Errorf("there is no price of %s", h.gpu)
		}
		p, err := vllmsim.ProfileNamed(e.Profile)
		if err != nil {
			return nil, err
		}
		kind := e.Name[:strings.LastIndex(e.Name, "-")]
		numbered[kind]++
		e.Name = fmt.Sprintf("%s-%d", kind, numbered[kind])
		e.Context = longest
		all = append(all, Engine{e, h.gpu, h.count, price * float64(h.count), p.NumGPUBlocks * 16,
			p.MaxNumBatchedTokens, int((float64(gap.Microseconds()) - p.Base) / p.Prefill)})
	}
	return all, nil
}

// Prices are dollars an hour by the name of a GPU.
type Prices map[string]float64

// Source names where the published prices are from.
const Source = "one provider, Verda, on demand, as SkyPilot's catalogue has them at `000c1d0b` " +
	"(`integration/lab/gpus/prices.csv`)"

//go:embed prices.csv
var published string

// Published are the prices that the page has.
func Published() (Prices, error) {
	p, err := readPrices(strings.NewReader(published))
	if err != nil {
		return nil, fmt.Errorf("prices.csv: %w", err)
	}
	return p, nil
}

// mostDollars is more than a GPU costs in an hour.
const mostDollars = 10_000

// ReadPrices reads a file of prices: gpu,dollars a line, behind a line that says so; # begins a remark.
func ReadPrices(file string) (Prices, error) {
	f, err := os.Open(file)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	p, err := readPrices(f)
	if err != nil {
		return nil, fmt.Errorf("%s: %w", file, err)
	}
	return p, nil
}

func readPrices(from io.Reader) (Prices, error) {
	r := csv.NewReader(io.LimitReader(from, 1<<20))
	r.Comment, r.FieldsPerRecord, r.TrimLeadingSpace = '#', -1, true
	all := Prices{}
	for first := true; ; first = false {
		row, err := r.Read()
		if err == io.EOF {
			break
		}
		var at *csv.ParseError
		if errors.As(err, &at) {
			return nil, fmt.Errorf("line %d: %w", at.Line, at.Err)
		}
		if err != nil {
			return nil, err
		}
		line, _ := r.FieldPos(0)
		if first {
			if strings.Join(row, ",") != "gpu,dollars" {
				return nil, fmt.Errorf("line %d: the first line is gpu,dollars", line)
			}
			continue
		}
		if len(row) != 2 || row[0] == "" {
			return nil, fmt.Errorf("line %d: a row has the name of a GPU and dollars an hour", line)
		}
		x, err := strconv.ParseFloat(row[1], 64)
		if err != nil || !(x > 0 && x <= mostDollars) {
			return nil, fmt.Errorf("line %d: %.40q is no price above 0 and up to %d", line, row[1], mostDollars)
		}
		if _, twice := all[row[0]]; twice {
			return nil, fmt.Errorf("line %d: a second price of %.40q", line, row[0])
		}
		all[row[0]] = x
	}
	for _, h := range hardware {
		if _, ok := all[h.gpu]; !ok {
			return nil, fmt.Errorf("there is no price of %s", h.gpu)
		}
	}
	return all, nil
}
