// Package choices has what a market's files choose by name, and its machines know by interfaces alone:
// runtime policies, the toll that follows a regime, and the trees that add to forecasts.
package choices

import (
	runtime "souk/bus/policy"
	"souk/hub"
	"souk/hub/policy"
	"souk/hub/policy/ahead"
	"souk/hub/policy/fair"
	"souk/hub/policy/kvcache"
	"souk/hub/policy/pd"
	"souk/hub/predict"
	"souk/hub/predict/tree"
	"souk/hub/regime/router"
)

// Hub is a hub's configuration as it is delivered, but for its names.
func Hub() hub.Config {
	c := hub.Default()
	c.Parts = hub.Parts{Policies: policies, Toll: router.Router{}, Gates: Trees}
	return c
}

// Trees makes gates before Hoeffding trees (iemas 4.1).
func Trees(features int) predict.Gate { return tree.NewGate(tree.Default(), features) }

var policies = policy.Known{
	policy.Place: {
		"fair": func() runtime.Policy { return fair.New() },
		"pd":   func() runtime.Policy { return pd.New() },
	},
	policy.Keep: {
		"kvcache": func() runtime.Policy { return kvcache.New(1 << 16) },
		"ahead":   func() runtime.Policy { return ahead.New(1 << 14) },
	},
}
