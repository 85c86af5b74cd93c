// The same problem solved by LEMON (https://lemon.cs.elte.hu, Debian liblemon-dev): the best of its min-cost flow
// solvers, timed without building the graph. Reads tasks, seats, slots, then for each task its number of edges and
// their (seat, weight); writes the greatest welfare and, for each solver, nanoseconds of processor time per solve.
//
// Build: g++ -O3 -DNDEBUG lemon.cc -llemon      (see lemon_test.go, which builds and runs it where it can)
#include <cstdio>
#include <ctime>
#include <vector>

#include <lemon/cost_scaling.h>
#include <lemon/network_simplex.h>
#include <lemon/smart_graph.h>

using namespace lemon;
typedef SmartDigraph::ArcMap<long long> Values;

static double now() {
  timespec t;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
  return t.tv_sec * 1e9 + t.tv_nsec;
}

// The supplies sum to zero, so that every task sends exactly one unit (with the default, GEQ, and other supplies, a task
// may send several).
template <class Solver>
static long long solve(SmartDigraph &g, Values &cap, Values &cost, SmartDigraph::NodeMap<long long> &supply, double *ns) {
  long long best = 0;
  double spent = 0;
  int runs = 0;
  while (runs == 0 || spent < 5e7) {
    Solver s(g);
    s.upperMap(cap).costMap(cost).supplyMap(supply);
    double start = now();
    s.run();
    spent += now() - start;
    runs++;
    best = -s.template totalCost<long long>();
  }
  *ns = spent / runs;
  return best;
}

int main() {
  int n, m;
  if (scanf("%d %d", &n, &m) != 2) return 1;
  SmartDigraph g;
  Values cap(g), cost(g);
  SmartDigraph::NodeMap<long long> supply(g);
  std::vector<SmartDigraph::Node> seat(m);
  SmartDigraph::Node sink = g.addNode();
  supply[sink] = -n;
  for (int a = 0; a < m; a++) {
    long long slots;
    if (scanf("%lld", &slots) != 1) return 1;
    seat[a] = g.addNode();
    supply[seat[a]] = 0;
    SmartDigraph::Arc e = g.addArc(seat[a], sink);
    cap[e] = slots, cost[e] = 0;
  }
  for (int t = 0; t < n; t++) {
    SmartDigraph::Node task = g.addNode();
    supply[task] = 1;
    SmartDigraph::Arc out = g.addArc(task, sink);
    cap[out] = 1, cost[out] = 0;
    int edges;
    if (scanf("%d", &edges) != 1) return 1;
    while (edges-- > 0) {
      int a;
      long long w;
      if (scanf("%d %lld", &a, &w) != 2) return 1;
      SmartDigraph::Arc e = g.addArc(task, seat[a]);
      cap[e] = 1, cost[e] = -w;
    }
  }
  double simplex, scaling;
  long long a = solve<NetworkSimplex<SmartDigraph, long long, long long>>(g, cap, cost, supply, &simplex);
  long long b = solve<CostScaling<SmartDigraph, long long, long long>>(g, cap, cost, supply, &scaling);
  if (a != b) return 2;
  printf("%lld %.0f %.0f\n", a, simplex, scaling);
}
