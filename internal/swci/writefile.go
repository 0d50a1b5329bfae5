package swci

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"

	"github.com/swarmd/swarmd/internal/atomicfile"
	"github.com/swarmd/swarmd/internal/swci/exit"
)

// writeFile has write fill a new file, which is there whole or not at all. Without force it takes no name that is taken.
func writeFile(path string, mode fs.FileMode, force bool, write func(io.Writer) error) error {
	if _, err := os.Lstat(path); err == nil && !force {
		return fileTaken(path)
	}
	f, err := atomicfile.Create(path, mode)
	if err != nil {
		return fmt.Errorf("write %s: %w", path, err)
	}
	buffered := bufio.NewWriterSize(f, 1<<20)
	err = write(buffered)
	if err == nil {
		err = buffered.Flush()
	}
	switch {
	case err != nil:
	case force:
		err = f.Replace()
	default:
		if err = f.New(); errors.Is(err, fs.ErrExist) {
			err = fileTaken(path)
		}
	}
	return errors.Join(err, f.Close())
}

// fileTaken is the error of a file that is there and is not to be written over.
func fileTaken(path string) error {
	return exit.New(exit.Conflict, "give another name with --out, or --force to write over it", "%s exists", path)
}
