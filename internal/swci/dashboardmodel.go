package swci

import (
	"context"
	"fmt"
	"io"
	"strconv"

	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
)

// fetchModel gives a page a model as `get model CONTRACT` writes it: of the round and with the digest that the page has shown.
func (d *documents) fetchModel(ctx context.Context, of dashboard.ModelOf, begin func(name string, size int64) io.Writer) error {
	if of.Contract == "" || of.Digest == "" || of.Round == 0 {
		return exit.New(exit.Usage, "reload the page", "which model is meant, and its digest, was not said")
	}
	if _, err := d.Link(); err != nil {
		return err
	}
	l, err := d.session.Grammar.split([]string{"--round=" + strconv.FormatUint(of.Round, 10), "--digest=" + of.Digest, "--", "get", "model", of.Contract})
	if err != nil {
		return err
	}
	_, args, err := d.session.Grammar.parse(l)
	if err != nil {
		return err
	}
	one := d.session
	job, err := findModel(ctx, &one, args, d.api, 0)
	if err != nil {
		return documentError(err)
	}
	size, err := job.meta.Size()
	if err != nil {
		return err
	}
	out := lateWriter{begin: func() io.Writer { return begin(job.fileName(), size) }}
	if err := job.run(ctx, &out); err != nil {
		err = documentError(err)
		hint := first(exit.Hint(err), fmt.Sprintf("fetch it again; in a terminal: swarmctl get model %s --round %d", text.Line(of.Contract), of.Round))
		return exit.New(exit.Code(err), hint, "get model of round %d of %s: %w", of.Round, text.Line(of.Contract), err)
	}
	return out.flush()
}

// lateWriter begins to write with the first byte of a model behind its header: until then what goes wrong can be said.
type lateWriter struct {
	begin func() io.Writer
	head  []byte
	to    io.Writer
}

func (w *lateWriter) Write(p []byte) (int, error) {
	if w.head == nil {
		w.head = append([]byte{}, p...)
		return len(p), nil
	}
	if err := w.flush(); err != nil {
		return 0, err
	}
	return w.to.Write(p)
}

// flush begins, if nothing has come behind the header yet.
func (w *lateWriter) flush() error {
	if w.to != nil {
		return nil
	}
	w.to = w.begin()
	_, err := w.to.Write(w.head)
	return err
}
