package spire

import (
	"sync"
	"time"
)

// agentState is what is known of an agent: from its socket, its log and its server. All methods are safe for concurrent use.
type agentState struct {
	setup   *agentSetup
	refused chan struct{} // the server refuses the agent, or is another one: there is nothing to wait for

	mu        sync.Mutex
	domain    string
	alias     string    // path by which entries know it, "" if somebody else made its token
	selectors []string  // of this process, as the agent saw them last
	complaint string    // the last warning or error that the agent which runs now has logged
	problem   string    // why the agent doesn't get on, in words
	joined    bool      // the agent which runs now has, or began with, an SVID
	gotToken  bool      // it was given a token that was made for it
	lostKey   bool      // the agent can't use the SVID that it has kept: it needs a token
	up        bool      // answers
	everUp    bool      // or one before it
	since     time.Time // it answers, or was started
	notice    notice    // the last one
}

// notice is when what was logged.
type notice struct {
	at   time.Time
	what string
}

// whatIsWrong says in words why the agent doesn't get on, "" if nothing is known to be wrong.
func (a *agentState) whatIsWrong() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.problem
}

func (a *agentState) setAlias(alias string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.alias = alias
}

func (a *agentState) trustDomain() string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.domain
}

func (a *agentState) setDomain(domain string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.domain = domain
}

func (a *agentState) setProblem(text string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.problem, a.up = text, false
}

// begin forgets what an agent before said.
func (a *agentState) begin(gotToken bool) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.selectors, a.complaint, a.since = nil, "", time.Now()
	a.joined, a.gotToken = readSaved(a.setup.dataDir).usable(a.since), gotToken
	select {
	case <-a.refused:
	default:
	}
}

func (a *agentState) isUp() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.up
}

// hopeless is a failure that ends the first start. What has worked before may work again: the server comes back, the program
// was only being replaced.
func (a *agentState) hopeless(err error) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.everUp {
		return err
	}
	return &permanent{err.Error()}
}

func (a *agentState) keyLost() bool {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.lostKey
}

func (a *agentState) ready() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.up, a.everUp, a.joined, a.since, a.problem, a.lostKey = true, true, true, time.Now(), "", false
	a.setup.cfg.Log.Info("SPIRE agent is ready", "socket", a.setup.socket, "spiffe_id", readSaved(a.setup.dataDir).id())
}

// sayProblem repeats what the agent waits for.
func (a *agentState) sayProblem() {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.sayLocked()
}

func (a *agentState) sayLocked() {
	if a.problem == "" || a.up || a.notice.what == a.problem && time.Since(a.notice.at) < agentNotice {
		return
	}
	a.notice.at, a.notice.what = time.Now(), a.problem
	a.setup.cfg.Log.Warn("waiting for the SPIRE agent", "why", a.problem)
}
