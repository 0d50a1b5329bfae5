package swci

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"sync"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/consensus/ledger/audit"
	"github.com/swarmd/swarmd/identity"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/swci/dashboard"
	"github.com/swarmd/swarmd/internal/swci/exit"
	"github.com/swarmd/swarmd/internal/text"
	"github.com/swarmd/swarmd/internal/version"
)

// documents makes what the dashboard shows, as the commands make it.
type documents struct {
	session  Session       // of the commands
	judge    audit.Options // how the ledger is judged for a proof
	api      client.Operator
	context  string
	actions  bool
	events   *eventReader
	identity func() identity.Status // nil: not known

	mu      sync.Mutex
	names   map[string]string  // of SNs, by address
	refused map[string]refusal // documents that this identity may not see
}

// maxRefused bounds the documents that a page is told it may not see, and refusedFor is how long it is told of one that nobody asks for any more.
const (
	maxRefused = 64
	refusedFor = time.Minute
)

// refusal is a document that may not be seen, and when that was last found.
type refusal struct {
	missingRightJSON
	at time.Time
}

// newDocuments makes documents of a swarm that is open. A proof is by the authorities in judge.
func newDocuments(s *Session, target Context, api client.Operator, actions bool, judge audit.Options) *documents {
	d := &documents{session: *s, judge: judge, api: api, events: newEventReader(api.ReadLedgerFrom, judge, s.Env.Now), context: target.Name, actions: actions, names: map[string]string{}, refused: map[string]refusal{}}
	d.events.noticed.get = func(ctx context.Context, most uint32, known uint64) (*swarmv1.GetEventsResponse, error) {
		return client.NoticedEvents(ctx, api.Client, most, known)
	}
	d.session.JSON, d.session.prompt, d.session.fixed, d.session.Env.Stderr = true, nil, &target, io.Discard
	d.session.Connect = func(ctx context.Context, to Context) (client.Operator, func(), error) {
		if len(to.SNs) == 0 || &to.SNs[0] == &target.SNs[0] { // the very list, not one like it
			return api, func() {}, nil
		}
		return s.Connect(ctx, to) // a command means one SN, as for its log
	}
	return d
}

// kindOfDocument finds the kind of a document, and the name behind it.
func kindOfDocument(name string) (kind documentKind, of string, ok bool) {
	for _, k := range documentKinds() {
		if k.name == name && !strings.HasSuffix(name, "/") {
			return k, "", true
		}
		if of, ok := strings.CutPrefix(name, k.name); ok && of != "" && strings.HasSuffix(k.name, "/") {
			return k, of, true
		}
	}
	return kind, "", false
}

// Kind implements dashboard.Documents.
func (d *documents) Kind(name string) dashboard.Kind {
	kind, _, ok := kindOfDocument(name)
	return dashboard.Kind{There: ok, OnDemand: kind.once, Slow: kind.slow, Link: name == "swarm" || name == "nodes", Agreed: kind.told, Apart: kind.apart, Seldom: kind.node}
}

// Follow implements dashboard.Documents.
func (d *documents) Follow(ctx context.Context, changed func()) error {
	return d.api.WatchSwarm(ctx, changed)
}

// Get implements dashboard.Documents.
func (d *documents) Get(ctx context.Context, name string) (value json.RawMessage, err error) {
	name, options, _ := strings.Cut(name, "?") // of a history: points=N, after=N, or both with & between
	kind, of, _ := kindOfDocument(name)
	switch kind.name {
	case "swarm":
		value, err = d.swarm(ctx)
	case "events":
		value, err = d.events.now(ctx)
	case "proof/":
		value, err = d.proof(ctx, of)
	default:
		line := append([]string{"--"}, strings.Fields(kind.line)...)
		if run := ""; kind.name == "history/" {
			if of, run, _ = strings.Cut(of, "/"); run != "" {
				line = append([]string{"--run=" + run}, line...)
			}
		}
		if of != "" {
			line = append(line, of)
		}
		if kind.with != "" {
			line = append([]string{kind.with}, line...)
		}
		for option := range strings.SplitSeq(options, "&") {
			if option != "" {
				line = append([]string{"--" + option}, line...)
			}
		}
		value, err = d.run(ctx, line)
	}
	err = documentError(err)
	d.note(name, kind.once || kind.node, err)
	return value, err
}

// documentError is an error as pages are told it. SNs that are all of another swarm are as none: what was known stays, and is old.
func documentError(err error) error {
	if err = apiError(err); client.Reason(err) == client.ReasonWrongSwarm {
		return &exit.Error{Status: exit.Unreachable, Err: err, Hint: exit.Hint(err)}
	}
	return err
}

// note notes whether a document may be seen. Of what a page asks for once it says in its place why it is refused.
func (d *documents) note(name string, once bool, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	delete(d.refused, name)
	if exit.Code(err) == exit.Denied && !once && len(d.refused) < maxRefused {
		d.refused[name] = refusal{missingRightJSON{name, text.Line(err.Error()), text.Line(exit.Hint(err))}, d.session.Env.Now()}
	}
}

// missing are the documents that may not be seen, without those that no page shows any more.
func (d *documents) missing() []missingRightJSON {
	d.mu.Lock()
	defer d.mu.Unlock()
	now, out := d.session.Env.Now(), []missingRightJSON{}
	for _, name := range slices.Sorted(maps.Keys(d.refused)) {
		if r := d.refused[name]; now.Sub(r.at) <= refusedFor {
			out = append(out, r.missingRightJSON)
		} else {
			delete(d.refused, name)
		}
	}
	return out
}

// run runs a command, and returns what it prints as JSON; an error beside that too.
func (d *documents) run(ctx context.Context, argv []string) (json.RawMessage, error) {
	l, err := d.session.Grammar.split(argv)
	if err != nil {
		return nil, err
	}
	command, args, err := d.session.Grammar.parse(l)
	if err != nil {
		return nil, err
	}
	var said bytes.Buffer
	one := d.session
	one.Env.Stdout = &said
	err = command.Run(ctx, &one, args)
	if said.Len() == 0 {
		return nil, err
	}
	return said.Bytes(), err
}

// Link implements dashboard.Documents.
func (d *documents) Link() (sn string, err error) {
	sn = d.api.SNs()[0]
	d.mu.Lock()
	sn = first(d.names[sn], sn)
	d.mu.Unlock()
	if d.identity == nil {
		return sn, nil
	}
	id := d.identity()
	if ended := id.NotAfter; !ended.IsZero() && d.session.Env.Now().After(ended) {
		why := "the identity " + id.ID.String() + " expired at " + dated(ended.UnixMilli())
		if id.Problem != "" && !strings.Contains(id.Problem, " has expired: ") { // that of a file says the same, with a time that goes on
			why += ", and no new one comes: " + id.Problem
		}
		return sn, exit.New(exit.Denied, "have it renewed where it comes from, "+id.Origin+": what is shown goes on by itself then", "%s", why)
	}
	return sn, nil
}

// swarm is what the dashboard itself says of the swarm.
func (d *documents) swarm(ctx context.Context) (json.RawMessage, error) {
	s, err := d.api.GetSwarm(ctx)
	if err != nil {
		return nil, fmt.Errorf("get swarm: %w", err)
	}
	out := swarmJSON{
		SwarmID: s.GetSwarmId(), Epoch: d.api.Pin().Number(), SN: d.api.SNs()[0], SNs: []swarmSNJSON{}, Leader: s.GetLeader(), Version: s.GetVersion(),
		Own: version.Read().String(), Context: d.context, Actions: d.actions,
	}
	if d.identity != nil {
		id := d.identity()
		out.Identity = ownJSON{SpiffeID: id.ID.String(), NotBefore: stamp(id.NotBefore.UnixMilli()), NotAfter: stamp(id.NotAfter.UnixMilli())}
	}
	d.mu.Lock()
	for _, n := range s.GetSns() {
		d.names[nodeAddress(n)] = text.Line(n.GetName())
		out.SNs = append(out.SNs, swarmSNJSON{n.GetName(), nodeAddress(n), n.GetLive()})
	}
	d.mu.Unlock()
	out.Rights = d.missing()
	return json.Marshal(out)
}

// Act implements dashboard.Documents: a word on a task, as the commands give it.
func (d *documents) Act(ctx context.Context, a dashboard.Act) (said string, err error) {
	if a.Task == "" || a.Host == "" || a.Digest == "" {
		return "", exit.New(exit.Usage, "reload the page", "which task on which host is meant, and its digest, was not said")
	}
	if _, err := d.Link(); err != nil {
		return "", err
	}
	argv := []string{"--digest=" + a.Digest, "--", a.Do, "task", a.Task, "on", a.Host}
	switch {
	case a.Do == "refuse" && a.Reason != "":
		argv = append(argv, append([]string{"because"}, strings.Fields(a.Reason)...)...)
	case a.Do != "approve" && a.Do != "refuse":
		return "", exit.New(exit.Usage, "reload the page", "%.40q can't be done here", a.Do)
	}
	if _, err := d.run(ctx, argv); err != nil {
		return "", apiError(err)
	}
	word := map[string]string{"approve": "approval", "refuse": "refusal"}[a.Do]
	return fmt.Sprintf("the %s of task %s is signed; %s goes by it if its policy lets you decide", word, text.Line(a.Task), text.Line(a.Host)), nil
}
