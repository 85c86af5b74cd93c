package fit

import (
	"context"
	"fmt"
	"math"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"gonum.org/v1/gonum/mat"

	"souk/agentd/vllmsim"
)

// Fitted is the profile of a server, and the points that it was fitted to.
type Fitted struct {
	vllmsim.Profile
	// before a request waits for a step: what HTTP, tokens and processes take; for each byte of it, and for
	// each answer that is under way meanwhile, in microseconds. The stand-in's profile has none of them.
	Entry           time.Duration
	PerByte, Beside float64
	Points          []Point
}

// Fit measures a server and fits a profile to it, and then once more, less what the stand-in of the first one
// takes beside its profile: for its own HTTP, and as steps begin at moments of their own.
func Fit(ctx context.Context, s *Server, z Sizes) (f *Fitted, err error) {
	points, err := s.measure(ctx, loads(s, z))
	if err != nil {
		return nil, err
	}
	for range 2 {
		if f, err = solve(points, z); err != nil {
			return nil, fmt.Errorf("%s: %w", s.URL, err)
		}
		f.Name, f.NumGPUBlocks = s.Model, s.Info.KVTokens/s.Info.BlockSize+1
		if err := f.measureOwn(ctx, s); err != nil {
			return nil, err
		}
	}
	return f, nil
}

// solve finds the profile, of nothing below 0, whose errors are least in squares, each by what was measured.
func solve(points []Point, z Sizes) (*Fitted, error) {
	var rows [][]float64
	for _, p := range points {
		row := p.row(z)
		for i := range row {
			row[i] /= float64(p.Took) / 1000
		}
		rows = append(rows, row[:])
	}
	best, least := [unknown]float64{}, math.Inf(1)
	for set := 1; set < 1<<unknown; set++ { // those that are above 0: few enough to try all
		var of []int
		for i := range unknown {
			if set&(1<<i) != 0 {
				of = append(of, i)
			}
		}
		if len(of) > len(rows) {
			continue
		}
		a, b := mat.NewDense(len(rows), len(of), nil), mat.NewVecDense(len(rows), nil)
		for r, row := range rows {
			b.SetVec(r, 1-float64(points[r].Own)/float64(points[r].Took))
			for c, i := range of {
				a.Set(r, c, row[i])
			}
		}
		var x, off mat.VecDense
		if x.SolveVec(a, b) != nil || mat.Min(&x) < 0 {
			continue
		}
		off.MulVec(a, &x)
		off.SubVec(&off, b)
		if e := off.Norm(2); e < least {
			best, least = [unknown]float64{}, e
			for c, i := range of {
				best[i] = x.AtVec(c)
			}
		}
	}
	if math.IsInf(least, 1) {
		return nil, fmt.Errorf("nothing fits %d points", len(points))
	}
	f := &Fitted{Profile: vllmsim.Profile{Base: best[1], Prefill: best[2], Decode: best[3], Resident: best[4],
		Attention: best[7], MaxNumSeqs: z.Seqs, MaxNumBatchedTokens: z.Batched},
		Entry: time.Duration(best[0] * 1000), PerByte: best[5], Beside: best[6], Points: points}
	for i := range points {
		us := 0.0
		for k, x := range points[i].row(z) {
			us += x * best[k]
		}
		points[i].Fitted = time.Duration(us * 1000)
	}
	return f, nil
}

const unknown = 8

// row says of a load how often what is unknown counts, as the stand-in's steps have it: entry, base, prefill,
// decode, resident, bytes, answers beside it, attention. Of a step that is under way half is waited for.
func (x *Load) row(z Sizes) [unknown]float64 {
	if x.Output > 1 {
		n := float64(x.AtOnce)
		return [unknown]float64{0, 1, 0, n, n * (float64(x.Prompt) + float64(x.Output)/2)}
	}
	steps, resident, pairs := 0, 0, 0
	for at := x.Cached; at < x.Prompt; at += z.Batched {
		n := min(z.Batched, x.Prompt-at)
		steps, resident, pairs = steps+1, resident+at, pairs+n*at+n*n/2
	}
	out := [unknown]float64{1, float64(steps), float64(x.Prompt - x.Cached), 0, float64(resident),
		float64(x.Bytes), 0, float64(pairs)}
	if n := float64(x.Beside); n > 0 {
		const halves = 1.5 // of a step under way, and its own
		out[1], out[3], out[4], out[6] = out[1]+0.5, halves*n, out[4]+halves*n*besides, n
	}
	return out
}

// StandIn starts a stand-in with the server's sizes and the fitted profile. Whoever gets it closes it.
func (f *Fitted) StandIn(s *Server) (*vllmsim.Server, error) {
	sim, err := vllmsim.New(vllmsim.Config{Model: s.Model, Profile: f.Profile,
		MaxModelLen: s.Info.MaxModelLen, BlockSize: s.Info.BlockSize})
	if err != nil {
		return nil, err
	}
	var open atomic.Int64
	guard := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if strings.HasSuffix(r.URL.Path, "/completions") {
			us := f.PerByte*float64(max(0, r.ContentLength)) + f.Beside*float64(open.Add(1)-1)
			defer open.Add(-1)
			time.Sleep(f.Entry + time.Duration(us*1000))
		}
		sim.ServeHTTP(w, r)
	})
	if err := sim.StartBehind("127.0.0.1:0", guard); err != nil {
		_ = sim.Close()
		return nil, err
	}
	return sim, nil
}

// measureOwn measures how much longer each load takes on the stand-in than its profile says.
func (f *Fitted) measureOwn(ctx context.Context, s *Server) error {
	sim, err := f.StandIn(s)
	if err != nil {
		return err
	}
	defer sim.Close()
	own, err := Find(ctx, sim.URL())
	if err != nil {
		return err
	}
	var all []Load
	for _, p := range f.Points {
		all = append(all, p.Load)
	}
	points, err := own.measure(ctx, all)
	for i, p := range points {
		f.Points[i].Own = p.Took - f.Points[i].Fitted
	}
	return err
}
