package serve

import (
	"context"
	"errors"
	"io/fs"
	"sync"
	"time"

	"souk/bus/follow"
	"souk/bus/learned"
	"souk/bus/regular"
	"souk/hub"
)

// rememberEvery is how often the learned state is written down. What is learned in between is lost with the
// process, and learned again.
const rememberEvery = time.Minute

// relearn reads what an earlier life of this hub had learned. Without it the hub begins by what it assumes.
func (s *Server) relearn() {
	if s.deps.Learned == "" {
		return
	}
	data, err := regular.Read(s.deps.Learned, learned.Most)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		s.with(func(n *hub.Node) { err = n.Forecasts.Relearn(data) })
	}
	if err != nil {
		s.log.Warn("what was learned of the agents is not taken up: forecasts begin by what the hub's file "+
			"assumes (prior), and get better within some hundred answers", "file", s.deps.Learned, "err", err)
		return
	}
	s.log.Info("took up what was learned of the agents", "file", s.deps.Learned, "bytes", len(data))
}

// remember writes down what the hub has learned, every minute and once the function returned is called.
func (s *Server) remember(ctx context.Context) (stop func()) {
	if s.deps.Learned == "" {
		return func() {}
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var writer sync.WaitGroup
	writer.Go(func() {
		var room []byte
		for more := true; more; room = s.writeLearned(room) {
			more = follow.Pause(ctx, rememberEvery)
		}
	})
	return func() {
		end()
		writer.Wait()
	}
}

// writeLearned replaces the file as a whole, so that a crash leaves the last one or this. While the hub
// stands still for it, what it knows is copied as it is to be written; all else is done beside it.
func (s *Server) writeLearned(room []byte) []byte {
	var err error
	s.with(func(n *hub.Node) { room, err = n.Forecasts.Learned(room[:0]) })
	path, data := s.deps.Learned, room
	if err == nil {
		data, err = learned.Sealed(data)
	}
	if err == nil {
		err = regular.Replace(path, data)
	}
	if err != nil {
		s.log.Warn("what was learned of the agents is not written down; it is tried again in a minute",
			"file", path, "err", err)
	}
	return room
}
