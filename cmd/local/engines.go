package local

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"souk/agentd"
	"souk/agentd/vllm"
	"souk/agentd/vllmsim"
	"souk/bus"
	"souk/cmd/replay"
)

// Profiles names the profiles of simulated engines.
func Profiles() []string {
	var names []string
	for _, p := range vllmsim.Profiles() {
		names = append(names, p.Name)
	}
	return names
}

// AskEngineWithin bounds the first question to a real engine.
const AskEngineWithin = 5 * time.Second

// startEngines starts the simulated engines, asks the real ones what they serve, and says how all of them are
// sold.
func (m *Market) startEngines(ctx context.Context, known []replay.Dialogue) ([]agentd.AgentConfig, error) {
	answers := knownAnswers(known)
	var all []Agent
	for _, a := range m.Config.Agents {
		sold, err := a.served(ctx)
		if err != nil {
			return nil, err
		}
		all = append(all, sold...)
	}
	if m.Config.Agents = all; len(all) > MaxAgents {
		return nil, fmt.Errorf("the engines have %d names, and one process sells %d at most: run agentd", len(all),
			MaxAgents)
	}
	var out []agentd.AgentConfig
	for i, a := range all {
		url := a.Engine.URL
		var err error
		if url == "" {
			if url, err = m.simulate(a, uint64(i+1), answers); err != nil {
				return nil, err
			}
		}
		c, err := a.config(url, a.Model)
		if err != nil {
			return nil, fmt.Errorf("agent %s: %w", a.ID, err)
		}
		out = append(out, c)
	}
	return out, nil
}

// config makes the configuration of the agent that sells the engine at url.
func (a Agent) config(url, model string) (agentd.AgentConfig, error) {
	card, err := a.Card()
	c := agentd.AgentConfig{ID: a.ID, Model: model,
		Engine: agentd.EngineConfig{URL: url, APIKey: a.Engine.APIKey, RelayEvery: a.Engine.RelayEvery},
		Slots:  a.Slots, Price: card, Owner: a.Owner, Class: a.Class, Ask: a.Ask}
	for _, s := range a.Scores {
		c.Domains = append(c.Domains, bus.DomainScore{Domain: s.Domain, Score: s.Score})
	}
	return c, errors.Join(err, a.Agentd.overAgent(&c))
}

// simulate starts a stand-in and returns its base URL.
func (m *Market) simulate(a Agent, seed uint64, answers vllmsim.Answers) (string, error) {
	profile, err := vllmsim.ProfileNamed(a.Engine.Profile)
	if err != nil {
		return "", fmt.Errorf("agent %s: %w", a.ID, err)
	}
	s, err := vllmsim.New(vllmsim.Config{Model: a.Model, Profile: profile, Speedup: m.Config.Speedup,
		Answers: answers, Seed: seed, Pooling: a.Engine.Pooling})
	if err != nil {
		return "", fmt.Errorf("agent %s: %w", a.ID, err)
	}
	m.opened = append(m.opened, s.Close)
	m.engines[a.ID] = s
	if err := s.Start("127.0.0.1:0"); err != nil {
		return "", fmt.Errorf("agent %s: %w", a.ID, err)
	}
	return s.URL(), nil
}

// served returns the agents that sell an agent's engine, which is asked what it serves if it is a real one.
func (a Agent) served(ctx context.Context) ([]Agent, error) {
	if a.Engine.URL == "" {
		return []Agent{a}, nil
	}
	c, err := a.config(a.Engine.URL, a.Model)
	if err != nil {
		return nil, fmt.Errorf("agent %s: %w", a.ID, err)
	}
	ctx, cancel := context.WithTimeout(ctx, AskEngineWithin)
	defer cancel()
	info, err := vllm.New(c.Engine).Info(ctx)
	if err != nil {
		return nil, fmt.Errorf("agent %s: no engine answers at %s (%w): start one with `vllm serve MODEL --port "+
			"...`, or SGLang, llama.cpp, Ollama, TGI, LMDeploy, and give its base URL, without /v1", a.ID,
			bus.Redact(a.Engine.URL), err)
	}
	names := info.Models
	switch {
	case a.every:
	case a.Model == "":
		names = names[:1]
	case slices.Contains(names, a.Model):
		names = []string{a.Model}
	default:
		return nil, fmt.Errorf("agent %s: the engine at %s does not serve %s, but %s", a.ID,
			bus.Redact(a.Engine.URL), a.Model, strings.Join(names, ", "))
	}
	sold := slices.Repeat([]Agent{a}, len(names))
	for i, name := range names {
		sold[i].Slots = max(1, a.Slots/len(names)) // of one engine
		if sold[i].Model = name; i > 0 {
			sold[i].ID = fmt.Sprintf("%s-%d", a.ID, i+1)
		}
	}
	return sold, nil
}

// knownAnswers teaches the simulated engines what was answered when the dialogues were recorded.
func knownAnswers(ds []replay.Dialogue) vllmsim.Answers {
	answers := vllmsim.Answers{}
	for _, d := range ds {
		var said []vllmsim.Message
		if d.System != "" {
			said = append(said, vllmsim.Message{Role: "system", Content: d.System})
		}
		for _, t := range d.Turns {
			said = append(said, vllmsim.Message{Role: "user", Content: t.User})
			if t.Answer != "" {
				answers.Add(said, t.Answer)
			}
			said = append(said, vllmsim.Message{Role: "assistant", Content: t.Answer})
		}
	}
	return answers
}
