package models

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/swarmd/swarmd/identity/naming"
	"github.com/swarmd/swarmd/internal/round"
	"github.com/swarmd/swarmd/internal/session/proof"
	"github.com/swarmd/swarmd/merge"
)

// errNoNote says that a note is none of Note.
var errNoNote = errors.New("it is not said which model it holds")

// Note is what a weight file's note says of the model in it: the name of its copy on disk. Slots may add, behind a tab, the name of
// the file that holds the optimiser's state.
func Note(ref round.Ref) string { return Store{}.path(ref) }

// Salvage keeps on disk a model that lies in a weight file of a previous run of this node, which was killed before it had a copy: all
// nodes may have been. It returns the model's round. It is an error if the file holds another model than was noted, or a part of one. The
// optimiser's state, which lies in scratchDir, is held to its digest when it is used.
func Salvage(modelDir, scratchDir, note string, weights *os.File) (round uint64, err error) {
	name, stateName, _ := strings.Cut(note, "\t")
	contract, base := filepath.Dir(name), filepath.Base(name)
	ref, ok := parseModelName(contract, base)
	st := Store{modelDir}
	if !ok || !naming.ValidContract(contract) || Note(ref) != name {
		return 0, errNoNote
	}
	path := st.path(ref)
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		return ref.Round, err // it had a copy
	}
	size, err := checkFlat(weights, ref.Digest)
	if err != nil {
		return 0, err
	}
	var all io.Reader = io.NewSectionReader(weights, 0, size)
	if ref.State != "" {
		f, err := os.Open(filepath.Join(scratchDir, filepath.Base(stateName)))
		if err != nil {
			return 0, err
		}
		defer f.Close()
		all = io.MultiReader(all, f)
	}
	if err := proof.WriteFile(path, all, false); err != nil {
		return 0, err
	}
	return ref.Round, st.prune(contract)
}

// checkFlat holds a file of weights to a model's digest, and returns its length.
func checkFlat(f *os.File, want string) (int64, error) {
	info, err := f.Stat()
	if err != nil {
		return 0, err
	}
	layout, err := merge.NewLayout([]merge.Tensor{{Name: "all", DType: merge.Uint8, Shape: []int64{info.Size()}}})
	if err != nil {
		return 0, err
	}
	if layout.Bytes() != info.Size() { // tensors are padded
		return 0, fmt.Errorf("no model has %d bytes", info.Size())
	}
	_, err = Form{Layout: layout}.Verify(f, round.Model{Digest: want}) // leaves depend on the length alone
	return info.Size(), err
}
