package fleet

import (
	"context"
	"errors"
	"time"

	"souk/bus"
	"souk/bus/client"
	"souk/bus/natsauth"
	"souk/bus/natsbus"
	"souk/cmd/local"
	"souk/market"
)

// fund pays the clients' money in.
func (f *Fleet) fund(ctx context.Context) error {
	for id, amount := range f.Clients {
		if _, err := f.Deposit(ctx, id, amount, "first-"+id); err != nil {
			return err
		}
	}
	return nil
}

// Deposit pays money in for a client, as an operator.
func (f *Fleet) Deposit(ctx context.Context, id string, amount market.Credits,
	deposit string) (bus.FundsReply, error) {
	link, err := f.Reach().Dial(bus.RoleOperator, local.Operator)
	if err != nil {
		return bus.FundsReply{}, err
	}
	defer link.Close()
	return link.Fund(ctx, id, amount, deposit)
}

// Reach returns how commands find the fleet.
func (f *Fleet) Reach() local.Reach { return local.Reach{Data: f.Data, NATS: "nats://" + f.NATS} }

// Client connects to NATS as a client does, over a connection of its own that Close ends.
func (f *Fleet) Client(id string) (*client.Client, error) {
	return f.ClientAt(id, f.NATS)
}

// ClientAt connects by another address, as that of a proxy.
func (f *Fleet) ClientAt(id, address string) (*client.Client, error) {
	b, err := f.connect(bus.RoleClient, id, address)
	if err != nil {
		return nil, err
	}
	c, err := client.New(client.Config{ID: id}, b)
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	f.onClose(func() error { return errors.Join(c.Close(), b.Close()) })
	return c, nil
}

func (f *Fleet) connect(role bus.Role, name, address string) (*natsbus.Bus, error) {
	creds, err := f.Keys.Ensure(role, bus.IDs{Name: name}, time.Now())
	if err != nil {
		return nil, err
	}
	return natsbus.Connect(natsbus.Config{URL: "nats://" + address, Name: name, Creds: natsauth.File(creds)})
}
