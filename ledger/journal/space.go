package journal

// HasRoom reports whether the disk has room for new holds. A hub asks before it clears a round: an Append
// that is refused with ledger.ErrDiskFull is refused whole.
func (j *Journal) HasRoom() bool {
	free, needed := j.Room()
	return free >= needed
}

// Room says how many bytes of the disk are free, and how many have to be for new holds. Where nobody knows,
// or nobody minds, none are needed.
func (j *Journal) Room() (free, needed int64) {
	if j.cfg.MinFree < 0 {
		return 0, 0
	}
	free, err := j.cfg.Free(j.dir)
	if err != nil {
		return 0, 0
	}
	return free, j.cfg.MinFree
}
