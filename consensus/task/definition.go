package task

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"maps"
	"slices"
	"unicode/utf8"

	"github.com/swarmd/swarmd/identity/naming"
)

// Root is the task that is there from the start: the prerequisite of tasks that need none.
const Root = "ROOTTASK"

// Types of tasks, as the original names them, and RunJob, which it has not.
const (
	RunSwarm             = "RUN_SWARM"
	MakeUserContainer    = "MAKE_USER_CONTAINER"
	PullImage            = "PULL_IMAGE"
	MakeSwarmUserContent = "MAKE_SWARM_USER_CONTENT"
	RunJob               = "RUN_JOB"
	rootType             = "ROOT_TASK"
)

// Task is what hosts can be asked to carry out. It is made, its definition is written line by line, and finalising fixes it.
type Task struct {
	Name       string `json:"name"`
	Type       string `json:"type"`
	Author     string `json:"author,omitempty"`
	Prereq     string `json:"prereq"`            // another task, or Root
	Outcome    string `json:"outcome,omitempty"` // what it makes, such as the name of an image
	Definition []byte `json:"definition,omitempty"`
	// PrereqDigest is the digest of the prerequisite, so that a digest stands for all tasks before it too; empty until the task is finalised, and
	// if the prerequisite is Root.
	PrereqDigest string `json:"prereq_digest,omitempty"`
	// Digest is the hex SHA-256 of all of the above; empty until the task is finalised.
	Digest      string `json:"digest,omitempty"`
	By          string `json:"by,omitempty"` // SPIFFE ID of who made it
	CreatedMS   int64  `json:"created_ms"`
	FinalisedMS int64  `json:"finalised_ms,omitempty"`
}

// Final reports whether the task can't be changed any more.
func (t *Task) Final() bool { return t.Digest != "" }

// Status is the task's state in the original's words.
func (t *Task) Status() string {
	if t.Final() {
		return "FINALIZED"
	}
	return "REGISTERED"
}

// Lines are those of the definition, without line feeds.
func (t *Task) Lines() [][]byte {
	if len(t.Definition) == 0 {
		return nil
	}
	return bytes.Split(bytes.TrimSuffix(t.Definition, []byte("\n")), []byte("\n"))
}

// Sum returns the digest of what is known of the task. See SumOn for one that is not finalised.
func (t *Task) Sum() string {
	raw, err := json.Marshal(struct { // the order of these fields is part of the format
		Name, Type, Author, Prereq, Outcome string
		Definition                          []byte
		PrereqDigest                        string `json:",omitempty"`
	}{t.Name, t.Type, t.Author, t.Prereq, t.Outcome, t.Definition, t.PrereqDigest})
	if err != nil {
		return "" // never: texts and bytes have a form
	}
	sum := sha256.Sum256(append([]byte("swarmd task 1\n"), raw...))
	return hex.EncodeToString(sum[:])
}

// SumOn returns the digest that a task of the board has, or will have if it is finalised as it and its prerequisite are.
func SumOn(b *Board, t *Task) string {
	c := *t
	if !t.Final() {
		c.PrereqDigest = prereqDigest(b, t)
	}
	return c.Sum()
}

// prereqDigest is what a task's digest is to cover of its prerequisite.
func prereqDigest(b *Board, t *Task) string {
	if prereq := b.Task(t.Prereq); prereq != nil && prereq.Name != Root {
		return prereq.Digest
	}
	return ""
}

// Task returns a task by name, the root task too, or nil.
func (b *Board) Task(name string) *Task {
	if name == Root {
		root := &Task{Name: Root, Type: rootType, Author: "HPE", Prereq: Root}
		root.Digest = root.Sum()
		return root
	}
	return b.Whole().Tasks[name]
}

// hasTask reports whether Task finds one.
func (b *Board) hasTask(name string) bool { return name == Root || b.Whole().Tasks[name] != nil }

// knownTask is Task that refuses what is not there.
func (b *Board) knownTask(name string) (*Task, error) {
	if t := b.Task(name); t != nil {
		return t, nil
	}
	return nil, illegal(Unknown, "see: swarmctl list tasks", "no task %s", clipped(name))
}

// openTask is knownTask that refuses what can't be changed, and returns a copy.
func (b *Board) openTask(name string) (*Task, error) {
	old, err := b.knownTask(name)
	if err != nil {
		return nil, err
	}
	if old.Final() {
		return nil, illegal(Finalised, "create a task of another name", "task %s is finalised and can't be changed", name)
	}
	t := *old
	return &t, nil
}

// check holds what names a task to its bounds.
func (t *Task) check() error {
	types := []string{RunSwarm, MakeUserContainer, PullImage, MakeSwarmUserContent, RunJob}
	switch {
	case !naming.ValidContract(t.Name):
		return illegal(Bad, "use 1 to 128 of A-Z a-z 0-9 . _ -", "bad task name %s", clipped(t.Name))
	case t.Name == Root:
		return illegal(Taken, "choose another name", "task %s is there from the start", Root)
	case !slices.Contains(types, t.Type):
		return illegal(Bad, "use RUN_SWARM, MAKE_USER_CONTAINER, PULL_IMAGE, MAKE_SWARM_USER_CONTENT or RUN_JOB", "task %s has the unknown type %s", t.Name, clipped(t.Type))
	case !naming.ValidContract(t.Prereq):
		return illegal(Bad, "name another task, or "+Root, "task %s has the bad prerequisite %s", t.Name, clipped(t.Prereq))
	case !text(t.Author, maxField) || !text(t.Outcome, maxField) || !visible(t.By, maxSPIFFEID):
		return illegal(Bad, "use one line of at most 160 bytes", "author or outcome of task %s is out of bounds", t.Name)
	}
	return nil
}

// CreateTask adds a task; its definition is written later. Made again with the same words while nothing was written, it stays as it is.
func (b *Board) CreateTask(t Task) (*Board, error) {
	t.Definition, t.PrereqDigest, t.Digest, t.FinalisedMS = nil, "", "", 0
	if err := t.check(); err != nil {
		return b, err
	}
	if old := b.Task(t.Name); old != nil {
		if !old.Final() && len(old.Definition) == 0 && old.Sum() == t.Sum() && old.By == t.By {
			return b, nil
		}
		return b, old.taken()
	}
	if t.Prereq == t.Name || !b.hasTask(t.Prereq) {
		return b, illegal(Unknown, "create it first, or use "+Root, "task %s needs task %s, which does not exist", t.Name, t.Prereq)
	}
	if n := len(b.Whole().Tasks); n >= MaxTasks {
		return b, illegal(Full, "delete tasks that are no longer used: swarmctl delete task NAME", "the swarm has %d tasks already", n)
	}
	next := b.draft()
	next.Tasks[t.Name] = &t
	return next, nil
}

// taken refuses a second task of the name, with what makes room: a finalised task goes only by force, the root task never.
func (t *Task) taken() error {
	remedy := "choose another name, or: swarmctl delete task " + t.Name
	switch {
	case t.Name == Root:
		remedy = "choose another name"
	case t.Final():
		remedy += " force"
	}
	return illegal(Taken, remedy, "there is a task %s already", t.Name)
}

// EditTask writes lines of a definition, from line on, which counts from 1: it replaces lines, and adds those that follow the last.
// text holds one line or more, divided by line feeds.
func (b *Board) EditTask(name string, line uint32, text []byte) (*Board, error) {
	t, err := b.openTask(name)
	if err != nil {
		return b, err
	}
	if !utf8.Valid(text) || bytes.ContainsFunc(text, func(r rune) bool { return r < ' ' && r != '\n' && r != '\t' || r == 0x7f }) {
		return b, illegal(Bad, "use UTF-8 text without control characters", "the text for task %s is no plain text", name)
	}
	lines, added := t.Lines(), bytes.Split(bytes.TrimSuffix(text, []byte("\n")), []byte("\n"))
	at := int(line) - 1
	if line == 0 || at > len(lines) {
		return b, illegal(Bad, "write the lines in their order, from 1 on", "task %s has %d lines, so line %d can't be written", name, len(lines), line)
	}
	rest := lines[min(at+len(added), len(lines)):]
	t.Definition = append(bytes.Join(slices.Concat(lines[:at], added, rest), []byte("\n")), '\n')
	old := b.Task(name)
	if n := bytes.Count(t.Definition, []byte("\n")); len(t.Definition) > MaxDefinition || n > maxLines {
		return b, illegal(Full, "make the task smaller", "the definition of task %s would have %d bytes in %d lines, at most %d in %d", name, len(t.Definition), n, MaxDefinition, maxLines)
	}
	if all := definitions(b) - len(old.Definition) + len(t.Definition); all > MaxDefinitions {
		return b, illegal(Full, "delete tasks that are no longer used: swarmctl delete task NAME", "all tasks together would have %d bytes, at most %d", all, MaxDefinitions)
	}
	if bytes.Equal(old.Definition, t.Definition) {
		return b, nil
	}
	next := b.draft()
	next.Tasks[name] = t
	return next, nil
}

// definitions is how many bytes the definitions of all tasks have.
func definitions(b *Board) (n int) {
	for _, t := range b.Whole().Tasks {
		n += len(t.Definition)
	}
	return n
}

// FinaliseTask fixes a task. digest, if it is not empty, is what its Sum must be, so that nobody finalises other words than they have read.
func (b *Board) FinaliseTask(name, digest string, atMS int64) (*Board, error) {
	old, err := b.knownTask(name)
	if err != nil {
		return b, err
	}
	if old.Final() && (digest == "" || digest == old.Digest) {
		return b, nil
	}
	t, err := b.openTask(name)
	if err != nil {
		return b, err
	}
	t.PrereqDigest = prereqDigest(b, t)
	switch prereq := b.Task(t.Prereq); {
	case digest != "" && digest != t.Sum():
		return b, illegal(Stale, "read it again: swarmctl get task body "+name, "task %s was changed: its digest is %s", name, t.Sum())
	case len(t.Definition) == 0:
		return b, illegal(Unfinished, "write its body: swarmctl append task body "+name+" 1 LINE", "task %s has no definition", name)
	case prereq == nil || !prereq.Final():
		return b, illegal(Unfinished, "finalise it first: swarmctl finalize task "+t.Prereq, "task %s needs task %s, which is not finalised", name, t.Prereq)
	}
	t.Digest, t.FinalisedMS = t.Sum(), atMS
	next := b.draft()
	next.Tasks[name] = t
	return next, nil
}

// DeleteTask removes a task that no other needs and no live assignment is of. One that is finalised goes only if force is set.
func (b *Board) DeleteTask(name string, force bool) (*Board, error) {
	t, err := b.knownTask(name)
	if err != nil {
		return b, err
	}
	if name == Root {
		return b, illegal(InUse, "", "task %s belongs to every swarm and can't be deleted", Root)
	}
	if t.Final() && !force {
		return b, illegal(Finalised, "delete it all the same: swarmctl delete task "+name+" force", "task %s is finalised", name)
	}
	for _, other := range slices.Sorted(maps.Keys(b.Tasks)) {
		if b.Tasks[other].Prereq == name {
			return b, illegal(InUse, "delete task "+other+" first", "task %s needs task %s", other, name)
		}
	}
	for _, id := range b.LiveIDs() {
		if a := b.Assignments[id]; a.Task == name {
			return b, illegal(InUse, "wait until it is over, or reset its taskrunner", "task %s is assigned: assignment %s is %s", name, a.ID, a.Phase)
		}
	}
	next := b.draft()
	delete(next.Tasks, name)
	return next, nil
}
