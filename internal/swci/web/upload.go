package web

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"path/filepath"
	"regexp"

	"github.com/swarmd/swarmd/internal/atomicfile"
)

const (
	// maxUpload bounds a task file in bytes.
	maxUpload = 1 << 20
	// maxFraming bounds what stands around it in a request.
	maxFraming = 64 << 10
	// maxParts bounds the fields of a form.
	maxParts = 16
)

// taskFile is what a task file may be called: nothing that a shell, a program or the prompt reads by itself has such a name.
var taskFile = regexp.MustCompile(`^[A-Za-z0-9][A-Za-z0-9._-]{0,127}\.ya?ml$`)

// upload stores the file of a form in the user directory.
func (s *Server) upload(w http.ResponseWriter, r *http.Request) {
	if s.cfg.Dir == "" {
		turnAway(w, http.StatusConflict, "this SWCI has no user directory: start it with --usr-dir")
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxUpload+maxFraming)
	name, data, err := formFile(r)
	if err != nil {
		turnAway(w, http.StatusBadRequest, err.Error())
		return
	}
	if err := atomicfile.Replace(filepath.Join(s.cfg.Dir, name), data, 0o644); err != nil {
		var path *fs.PathError // names the directory, which is the operator's business
		if errors.As(err, &path) {
			err = path.Err
		}
		s.cfg.Log.Warn("task file not stored", "client", s.client(r), "file", name, "error", err)
		turnAway(w, http.StatusInternalServerError, fmt.Sprintf("store %s in the user directory: %v", name, err))
		return
	}
	s.cfg.Log.Info("task file stored", "client", s.client(r), "file", name, "bytes", len(data))
	fmt.Fprintf(w, "Task definition uploaded : %s\n", name)
}

// formFile returns name and content of the field file.
func formFile(r *http.Request) (name string, data []byte, err error) {
	form, err := r.MultipartReader()
	if err != nil {
		return "", nil, fmt.Errorf("read form: %w", err)
	}
	for range maxParts {
		part, err := form.NextPart()
		if err != nil {
			return "", nil, errors.New("the form has no field named file, or is longer than a task file may be")
		}
		if part.FormName() != "file" {
			continue
		}
		name = part.FileName() // without directories
		if !taskFile.MatchString(name) {
			return "", nil, fmt.Errorf("file name %.80q is not taken: a task file is called NAME.yaml, of letters, digits, dots, hyphens and underscores", name)
		}
		data, err = io.ReadAll(io.LimitReader(part, maxUpload+1))
		switch {
		case len(data) > maxUpload:
			return "", nil, fmt.Errorf("%s has more than %d bytes, which a task file may have", name, maxUpload)
		case err != nil:
			return "", nil, fmt.Errorf("read %s: %w", name, err)
		}
		return name, data, nil
	}
	return "", nil, fmt.Errorf("the form has no field named file among its first %d", maxParts)
}
