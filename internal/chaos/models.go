package chaos

import (
	"errors"
	"os"

	"github.com/swarmd/swarmd/merge"
)

// models are the committed models that are at hand.
type models struct {
	dir    string
	layout *merge.Layout
	by     map[string][]byte // the newest, by digest
	recent []string
}

// get returns a committed model's bytes: computed, or, where an offer was changed, as a peer has taken it.
func (m *models) get(digest string) (bytes []byte, known bool) {
	if digest == "" {
		return nil, true
	}
	if b := m.by[digest]; b != nil {
		return b, true
	}
	b, err := os.ReadFile(modelFile(m.dir, digest))
	return b, err == nil && digestOf(m.layout, b) == digest
}

// keep remembers a model and forgets old ones.
func (m *models) keep(digest string, model []byte) error {
	m.by[digest] = model
	m.recent = append(m.recent, digest)
	if len(m.recent) <= keptModels {
		return nil
	}
	old := m.recent[0]
	m.recent = m.recent[1:]
	delete(m.by, old)
	if err := os.Remove(modelFile(m.dir, old)); err != nil && !errors.Is(err, os.ErrNotExist) {
		return err
	}
	return nil
}
