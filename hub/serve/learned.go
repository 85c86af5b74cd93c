package serve

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"sync"
	"time"

	"souk/hub/predict"
)

// rememberEvery is how often what the hub has learned is written down. What it learns in between is lost with
// the process, and learned again.
const rememberEvery = time.Minute

// relearn reads what an earlier life of this hub had learned. Without it the hub begins by what it assumes.
func (s *Server) relearn() {
	if s.deps.Learned == "" {
		return
	}
	data, err := readLearned(s.deps.Learned)
	if errors.Is(err, fs.ErrNotExist) {
		return
	}
	if err == nil {
		s.mu.Lock()
		err = s.node.Relearn(data)
		s.mu.Unlock()
	}
	if err != nil {
		s.log.Warn("what was learned of the agents is not taken up: forecasts begin by what the hub's file "+
			"assumes (prior), and get better within some hundred answers", "file", s.deps.Learned, "err", err)
		return
	}
	s.log.Info("took up what was learned of the agents", "file", s.deps.Learned, "bytes", len(data))
}

// readLearned reads a file that is not too large.
func readLearned(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, predict.MostLearned+1))
	if err == nil && len(data) > predict.MostLearned {
		err = fmt.Errorf("it has more than %d bytes", predict.MostLearned)
	}
	return data, err
}

// remember writes down what the hub has learned, every minute and once more when the function that it returns
// is called.
func (s *Server) remember(ctx context.Context) (stop func()) {
	if s.deps.Learned == "" {
		return func() {}
	}
	ctx, end := context.WithCancel(context.WithoutCancel(ctx))
	var writer sync.WaitGroup
	writer.Go(func() {
		every := time.NewTicker(rememberEvery)
		defer every.Stop()
		var room []byte
		for {
			select {
			case <-every.C:
				room = s.writeLearned(room)
			case <-ctx.Done():
				s.writeLearned(room)
				return
			}
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
	s.mu.Lock()
	data, err := s.node.Learned(room[:0])
	s.mu.Unlock()
	path, room := s.deps.Learned, data
	if err == nil {
		data, err = predict.Sealed(data)
	}
	if err == nil {
		err = replace(path, data)
	}
	if err != nil {
		s.log.Warn("what was learned of the agents is not written down; it is tried again in a minute",
			"file", path, "err", err)
	}
	return room
}

// replace writes a file beside another one, and puts it in its place once it is on the disk.
func replace(path string, data []byte) error {
	f, err := os.OpenFile(path+".new", os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(data)
	if err == nil {
		err = f.Sync()
	}
	if err = errors.Join(err, f.Close()); err == nil {
		err = os.Rename(f.Name(), path)
	}
	if err != nil {
		return errors.Join(err, os.Remove(f.Name()))
	}
	return nil
}
