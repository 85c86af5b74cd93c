package natsauth

import (
	"errors"
	"fmt"
	"time"

	"souk/bus"
)

// brief reports whether a key was made for less than the default validity: who asked for that wants it to
// end.
func (k *userKey) brief() bool {
	return time.Duration(k.Expires-k.Issued)*time.Second < Valid
}

// warn is how long before a key's end that is said: Warn, or, of a brief one, the last third of its life.
func (k *userKey) warn() time.Duration {
	if k.brief() {
		return min(Warn, time.Duration(k.Expires-k.Issued)*time.Second/3)
	}
	return Warn
}

// RenewDue makes new creds, and a new certificate, of each user whose files here have less than a third of
// their time left, or are over, and returns their names. Those before are good until they end. It leaves
// alone who was revoked, whose creds are kept elsewhere alone, and those that were made for less than Valid;
// without the signing key it does nothing. The processes that have the files read them at their next connect.
func (s *Store) RenewDue(now time.Time) (renewed []string, err error) {
	if !s.Signs() {
		return nil, nil
	}
	all, err := s.List()
	if err != nil {
		return nil, err
	}
	for _, u := range all {
		if u.Revoked || u.Brief || u.Expires.IsZero() || absent(s.CredsPath(u.Name)) {
			continue
		}
		ids := bus.IDs{Name: u.Name, Domain: u.Domain, Agents: u.Agents}
		if u.Expires.Sub(now) >= Valid/3 && s.certified(u.Role, ids, now) {
			continue
		}
		if wrong := s.renewDue(u.Name, now); wrong != nil {
			err = errors.Join(err, fmt.Errorf("%s %s is not renewed: %w", u.Role, u.Name, wrong))
			continue
		}
		renewed = append(renewed, u.Name)
	}
	return renewed, err
}

// renewDue makes new creds of a name as it is now: who was revoked, or lost agents, since it was listed stays
// so.
func (s *Store) renewDue(id string, now time.Time) error {
	if _, wrong := ReadFile(s.CredsPath(id)); errors.Is(wrong, ErrOpen) {
		return wrong
	}
	return s.update(func(n names) error {
		e, err := n.user(id)
		if err != nil {
			return err
		}
		if e.revoked() {
			return ErrRevoked
		}
		return s.give(n, e.Role, e.ids(id), now, Valid)
	})
}
