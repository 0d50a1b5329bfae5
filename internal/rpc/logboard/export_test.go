package logboard

// Kept counts the requests that a board has, and is no call that it could take for a reason to forget some.
func (b *Board) Kept() int {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.asks)
}
