package membus_test

import (
	"testing"

	"go.uber.org/goleak"

	"souk/bus"
	"souk/bus/bustest"
	"souk/bus/membus"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

type buses struct{ *membus.World }

func (b buses) Connect(_ *testing.T, name string) bus.Bus { return b.World.Bus(name) }

func TestBus(t *testing.T) {
	bustest.Bus(t, func(*testing.T) bustest.Network[bus.Bus] { return buses{membus.New(1)} })
}

type registries struct {
	world *membus.World
	made  map[string]*membus.Registry
}

func (r registries) Connect(_ *testing.T, name string) bus.Registry {
	r.made[name] = r.world.Registry()
	return r.made[name]
}
func (r registries) Cut(name string)  { r.made[name].Cut() }
func (r registries) Heal(name string) { r.made[name].Heal() }

func TestRegistry(t *testing.T) {
	bustest.Registry(t, func(*testing.T) bustest.Network[bus.Registry] {
		return registries{membus.New(1), map[string]*membus.Registry{}}
	})
}
