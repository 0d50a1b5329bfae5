package original

import (
	"bytes"
	"context"
	"fmt"
	"math"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/swarmd/swarmd/internal/bridge/original/array"
	"github.com/swarmd/swarmd/internal/bridge/original/frames"
	"github.com/swarmd/swarmd/internal/bridge/original/pickle"
	"github.com/swarmd/swarmd/internal/bridge/program"
	"github.com/swarmd/swarmd/internal/bridge/wire"
)

// handIn gives the node the weights of an offer, and opens its session with the first ones.
func (c *conversation) handIn(ctx context.Context, offer frames.Offer) error {
	arrays, done, err := c.weights(offer)
	if err != nil {
		return errorInProgram{err}
	}
	defer done()
	if c.node == nil {
		if c.node, err = openNode(ctx, c.front.Bridge, c.opening, arrays); err != nil {
			c.node = nil
			return err
		}
		c.node.session.OnWaiting = c.node.say(c.front.Say)
	}
	return c.node.write(arrays)
}

// say passes on what is waited for, once.
func (n *node) say(to func(string)) func(string) {
	return func(waiting string) {
		if waiting != n.said {
			n.said = waiting
			to(waiting)
		}
	}
}

// inFile reports whether weights lie in a file: release 2.3 says its name where others send the weights, which begin with a line feed.
// Names are within the folder, said with it or not.
func inFile(field []byte) bool {
	field = bytes.TrimPrefix(field, []byte(Folder+"/"))
	for _, b := range field {
		if b <= ' ' || b >= 0x7f || b == '/' {
			return false
		}
	}
	return len(field) > 0 && len(field) < 256 && field[0] != '.'
}

// weights are those of an offer. They may be read until done is called.
func (c *conversation) weights(offer frames.Offer) (arrays []array.Array, done func(), err error) {
	if len(offer.Weights) == 0 {
		return nil, nil, fmt.Errorf("the program handed in no weights")
	}
	if c.version == firstVersion || !inFile(offer.Weights) {
		c.module = ""
		arrays, err = frames.ParseWeights(offer.Weights)
		return arrays, func() {}, err
	}
	path := filepath.Join(c.front.Folder, filepath.Base(string(offer.Weights)))
	file, err := os.OpenFile(path, os.O_RDWR|unix.O_NOFOLLOW|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, nil, fmt.Errorf("open weights: %w", err)
	}
	info, err := file.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = fmt.Errorf("weights: %s is no file", path)
	}
	var w pickle.Weights
	if err == nil {
		if w, err = pickle.Read(file, info.Size()); err != nil {
			err = fmt.Errorf("weights in %s: %w", path, err)
		}
	}
	if err != nil {
		_ = file.Close()
		return nil, nil, err
	}
	c.module = w.Module
	return w.Arrays, func() {
		_ = file.Truncate(0) // the client writes it anew: what it takes is free meanwhile
		_ = file.Close()
	}, nil
}

// turn is the answer to one offer: each model that comes on the way is a question to the client.
type turn struct {
	*conversation
	offer     frames.Offer
	questions int32
}

// sync waits for the swarm's next model and gives it to the client. If there is none this time the client goes on with its own.
func (t *turn) sync(ctx context.Context) (program.Result, error) {
	t.node.session.Weight = int(t.offer.Weight)
	res, err := t.node.session.Sync(ctx)
	if err != nil {
		return res, err
	}
	for _, w := range res.Warnings {
		t.front.Say(w)
	}
	if res.Skipped {
		return res, nil
	}
	return res, t.ask(ctx, res)
}

// finish closes the session, and gives the client each model until the swarm is done.
func (t *turn) finish(ctx context.Context) error {
	mode := ""
	if t.offer.Weight == 0 {
		mode = "inactive"
	}
	t.node.session.OnNewer = func(res program.Result) error { return t.ask(ctx, res) }
	res, err := t.node.session.CloseAs(ctx, mode)
	if err != nil {
		return err
	}
	return t.ask(ctx, res)
}

// ask gives the client a model and passes on what it measured: that is the only way by which weights get in.
func (t *turn) ask(ctx context.Context, res program.Result) error {
	t.questions++
	if err := t.give(); err != nil {
		return err
	}
	h, err := t.in.header(ctx)
	if err == nil {
		err = t.versionIs(h)
	}
	var message []byte
	if err == nil {
		message, err = t.in.message(h)
	}
	if err != nil {
		return err
	}
	if h.Type != frames.Loss {
		return wrong("the program sent a message of type %d where its loss was expected", h.Type)
	}
	m, err := frames.ParseMeasured(message)
	if err != nil {
		return errorInProgram{err}
	}
	if m.Verdict.Code != frames.OK {
		why := "the program could not use the merged model: " + m.Verdict.Message
		_ = t.node.abort(ctx, why) // what is wrong is said below
		return wrong("%s", why)
	}
	return t.report(ctx, res, m)
}

// give sends the committed model.
func (t *turn) give() error {
	list := t.node.merged()
	defer func() { _ = t.node.session.Drop() }() // it was copied
	if t.module == "" {
		return frames.WriteQuestion(t.out, t.version, t.offer, t.questions, list)
	}
	if err := writeFile(filepath.Join(t.front.Folder, mergedFile), t.module, list); err != nil {
		return fmt.Errorf("write merged weights: %w", err)
	}
	return t.send(frames.GetLoss, frames.AppendQuestion(nil, t.offer, t.questions, mergedFile))
}

func writeFile(path, module string, list []array.Value) error {
	file, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|unix.O_NOFOLLOW|unix.O_NONBLOCK, everybody)
	if err != nil {
		return err
	}
	defer file.Close()
	if err := pickle.Write(file, module, list); err != nil {
		return err
	}
	// Written over, not anew: its pages are there.
	end, err := file.Seek(0, 1)
	if err != nil {
		return err
	}
	return file.Truncate(end)
}

// report passes on loss and metric. Clients without validation data say 0 for both.
func (t *turn) report(ctx context.Context, res program.Result, m frames.Measured) error {
	r := wire.ReportRequest{Round: res.Round, EpochsDone: int(max(m.Done, 0)), TotalEpochs: int(max(m.Total, 0))}
	if m.Loss != 0 || m.Metric != 0 {
		r.Loss = finite(m.Loss)
		if t.version != firstVersion { // which has no metric
			r.Metric = finite(m.Metric)
		}
	}
	return t.node.session.Report(ctx, r)
}

func finite(v float32) *float64 {
	f := float64(v)
	if math.IsNaN(f) || math.IsInf(f, 0) {
		return nil
	}
	return &f
}
