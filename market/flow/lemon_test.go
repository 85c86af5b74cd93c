package flow

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// buildLEMON compiles testdata/lemon.cc, or skips where there is no g++ or no LEMON. CPLUS_INCLUDE_PATH and
// LIBRARY_PATH point the compiler to a LEMON that is not installed.
func buildLEMON(tb testing.TB) string {
	tb.Helper()
	gcc, err := exec.LookPath("g++")
	if err != nil {
		tb.Skip("no g++")
	}
	const probe = "#include <lemon/network_simplex.h>\nint main() {}\n"
	try := exec.Command(gcc, "-fsyntax-only", "-x", "c++", "-")
	try.Stdin = strings.NewReader(probe)
	if try.Run() != nil {
		tb.Skip("no LEMON: apt-get install liblemon-dev")
	}
	path := filepath.Join(tb.TempDir(), "lemon")
	if out, err := exec.Command(gcc, "-O3", "-march=native", "-DNDEBUG", "-o", path, "testdata/lemon.cc",
		"-llemon").CombinedOutput(); err != nil {
		tb.Fatalf("%v\n%s", err, out)
	}
	return path
}

func runLEMON(tb testing.TB, path string, p *Problem) (welfare int64, simplex, scaling float64) {
	tb.Helper()
	var in bytes.Buffer
	fmt.Fprintln(&in, p.Tasks(), len(p.Slots))
	for _, s := range p.Slots {
		fmt.Fprintln(&in, s)
	}
	for t := range p.Tasks() {
		fmt.Fprintln(&in, p.Off[t+1]-p.Off[t])
		for e := p.Off[t]; e < p.Off[t+1]; e++ {
			fmt.Fprintln(&in, p.Seat[e], p.Weight[e])
		}
	}
	cmd := exec.Command(path)
	cmd.Stdin, cmd.Stderr = &in, os.Stderr
	out, err := cmd.Output()
	if err != nil {
		tb.Fatal(err)
	}
	if _, err := fmt.Sscan(string(out), &welfare, &simplex, &scaling); err != nil {
		tb.Fatalf("%q: %v", out, err)
	}
	return welfare, simplex, scaling
}

// BenchmarkAgainstLEMON compares with the best solver of the C++ library that the field uses: for one solve,
// where LEMON's gives no prices yet, and for all payments, which it needs N+1 solves for.
func BenchmarkAgainstLEMON(b *testing.B) {
	lemon := buildLEMON(b)
	for _, f := range families[:2] {
		for _, size := range sizes[:6] { // of the last it takes minutes
			for _, c := range []float64{0.5, 1, 2} {
				p := f.make(rand.New(rand.NewPCG(7, 7)), size.tasks, size.seats, size.candidates,
					int(c*float64(size.tasks)))
				welfare, simplex, scaling := runLEMON(b, lemon, &p)
				b.Run(fmt.Sprintf("%s/%dx%dof%d/slots=%v", f.name, size.tasks, size.seats, size.candidates,
					c), func(b *testing.B) {
					var s Solver
					start := cpu()
					for b.Loop() {
						if err := s.Solve(&p, nil); err != nil {
							b.Fatal(err)
						}
					}
					ours := float64(cpu()-start) / float64(b.N)
					if s.Welfare() != welfare {
						b.Fatalf("welfare %d, LEMON finds %d", s.Welfare(), welfare)
					}
					theirs := min(simplex, scaling)
					b.ReportMetric(ours, "cpu-ns/op")
					b.ReportMetric(theirs/ours, "x-one-solve")
					b.ReportMetric(theirs*float64(size.tasks+1)/ours, "x-all-prices")
				})
			}
		}
	}
}
