"""The trees of iemas Eq. 5 by the river library, on a stream of tasks that comes in line by line.

Lines of the input, numbers apart by commas:

    f,ID,AGENT,X...     a task is sent to an agent, and its features are these: it is forecast now
    l,ID,TTFT,COST      it has ended: what came is held against the forecast, and learned

At the end one line of JSON says how it went. Each agent has a tree for latency and one for cost, behind a
scaler, as the paper has it (section 4.1, appendix C.2.3).
"""

import json
import sys

import river
from river import compose, preprocessing, tree


def model():
    return compose.Pipeline(preprocessing.StandardScaler(), tree.HoeffdingTreeRegressor())


def main():
    models, waiting = {}, {}
    off, came, tasks = [0.0, 0.0], [0.0, 0.0], 0
    for line in sys.stdin:
        kind, ident, *rest = line.rstrip("\n").split(",")
        if kind == "f":
            agent, x = rest[0], {i: float(v) for i, v in enumerate(rest[1:])}
            own = models.setdefault(agent, (model(), model()))
            waiting[ident] = own, x, [max(0.0, m.predict_one(x)) for m in own]
        else:
            own, x, expected = waiting.pop(ident)
            tasks += 1
            for i, y in enumerate(float(v) for v in rest):
                off[i] += abs(expected[i] - y)
                came[i] += y
                own[i].learn_one(x, y)
    print(json.dumps({"version": river.__version__, "tasks": tasks, "ttft_nmae": off[0] / came[0],
                      "cost_nmae": off[1] / came[1]}))


main()
