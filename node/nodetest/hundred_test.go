package nodetest_test

import (
	"bytes"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	swarmv1 "github.com/swarmd/swarmd/api/swarm/v1"
	"github.com/swarmd/swarmd/api/swarm/v1/swarmv1connect"
	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/client"
	"github.com/swarmd/swarmd/internal/framework"
	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/jobrequest"
	"github.com/swarmd/swarmd/internal/policy"
	"github.com/swarmd/swarmd/node/nodetest"
)

// TestAHundredSWOPsUnderRandomFaults: SWOPs as they are, but for what they start, and SNs as they are die, come back and lose their links at
// random, heartbeats are lost, come twice and come late; and each assignment comes to one verdict, of which all SNs have the same history, its
// programs never run in two epochs at a time, and when it is over nothing of it is left. SWARM_TEST_SEED repeats a seed.
func TestAHundredSWOPsUnderRandomFaults(t *testing.T) { hundred(t, 1) }

// TestAHundredSWOPsForMinutes is the same with more seeds.
func TestAHundredSWOPsForMinutes(t *testing.T) {
	long(t)
	hundred(t, 30)
}

func hundred(t *testing.T, seeds uint64) {
	t.Helper()
	first, last := chosen(t, seeds)
	for seed := first; seed <= last; seed++ {
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			f := &fleet{rng: rand.New(rand.NewPCG(seed, 100)), verdicts: map[string]string{}} //nolint:gosec // the same each time
			mail := newMail(seed)
			cfg := nodetest.Config{SNs: 3, API: map[string]func(http.Handler) http.Handler{"sn-0": mail.before, "sn-1": mail.before, "sn-2": mail.before}}
			history(t, cfg, f.run)
			mail.check(t)
		})
	}
}

// fleet is a hundred hosts of eight taskrunners, and who has them carry out tasks.
type fleet struct {
	assignments

	rng      *rand.Rand
	hosts    *nodetest.SWOPs
	names    []string
	dead     []string          // hosts that were killed
	apart    []string          // nodes without links
	gone     string            // an SN that was killed
	killed   int               // hosts
	leaders  int               // SNs that led and were killed
	verdicts map[string]string // the first that was seen of each assignment
}

const teams = 8

func (f *fleet) run(t *testing.T, s *nodetest.Swarm) {
	f.hosts = nodetest.NewSWOPs(s)
	f.assignments = assignments{t: t, swarm: s, op: client.Tasks{By: s.Operator()}}
	train := f.task("train", task.RunSwarm, "Entrypoint : python3\nCommand : x.py\nWorkingDir : /w\nEnvvars : null\nPrivateContent : /w\nSharedContent : null\n")
	pull := f.task("pull", task.PullImage, "OrgAndReg : a\nRepoName : b\nTag : c\nAuth : null\n")
	for i := range teams {
		_, err := f.op.CreateTaskrunner(t.Context(), team(i))
		f.must(err)
	}
	for i := range 100 {
		f.names = append(f.names, f.hosts.Add(team(i%teams), ownerOf(i)))
	}
	s.Until("a hundred hosts", func() bool { return f.listen() == 100 })
	for i := range teams {
		f.hand([]*swarmv1.Task{train, train, train, pull}[i%4], team(i))
	}
	for i := range jobsAtOnce {
		f.start(f.names[100-5*(i+1) : 100-5*i])
	}
	f.pass(5 * time.Second)
	for i := range 12 {
		fault := f.rng.IntN(7)
		if i < 3 { // these in any case
			fault = i
		}
		f.strike(fault)
		f.pass(time.Duration(500+f.rng.IntN(5000)) * time.Millisecond)
	}
	f.mend()
	f.settle()
	f.ledger()
	f.jobs()
	won, epochs := 0, uint32(0)
	for _, a := range s.Board().Assignments {
		epochs += a.Epoch
	}
	for _, verdict := range f.verdicts {
		if strings.HasPrefix(verdict, string(task.Succeeded)) {
			won++
		}
	}
	outcome := fmt.Sprintf("%d hosts and %d leaders were killed; %d of %d assignments succeeded, in %d epochs", f.killed, f.leaders, won, len(f.ids), epochs)
	if t.Log(outcome); f.killed == 0 || f.leaders == 0 || won < len(f.ids)/2 || int(epochs) == len(f.ids) {
		t.Errorf("%s: the faults were too mild, or too hard", outcome)
	}
}

func team(i int) string { return fmt.Sprintf("team-%d", i) }

// jobsAtOnce is how many jobs there are, each for five hosts of their own.
const jobsAtOnce = 2

// ownerOf is the owner of a host: most have no policy, some allow nothing, and those whom jobs name give them their network.
func ownerOf(i int) func(domain string) (*policy.Policy, error) {
	return func(domain string) (*policy.Policy, error) {
		switch {
		case i%20 == 7:
			return policy.Parse("policy.yaml", []byte("sentences:\n- Allow spiffe://"+domain+"/swarm/swci/nobody to use host\n"), domain)
		case i >= 100-5*jobsAtOnce:
			return policy.Parse("policy.yaml", []byte("sentences:\n- Allow spiffe://"+domain+"/** to use host\nlimits: {networks: [host]}\n"), domain)
		}
		return policy.Unwritten(policy.Null, domain)
	}
}

func (f *fleet) task(name, kind, body string) *swarmv1.Task {
	f.t.Helper()
	_, err := f.op.CreateTask(f.t.Context(), &swarmv1.CreateTaskRequest{Name: name, Type: kind, Author: "me", Prereq: task.Root, Outcome: "x"})
	f.must(err)
	_, err = f.op.EditTask(f.t.Context(), name, 1, body)
	f.must(err)
	final, err := f.op.FinaliseTask(f.t.Context(), name, "")
	f.must(err)
	return final
}

// hand has 5 to 8 hosts of a taskrunner carry out a task, of whom some may fail.
func (f *fleet) hand(x *swarmv1.Task, taskrunner string) {
	f.t.Helper()
	peers := uint32(5 + f.rng.IntN(4))     //nolint:gosec // small
	least := peers - uint32(f.rng.IntN(3)) //nolint:gosec // small
	a, err := f.op.AssignTask(f.t.Context(), &swarmv1.AssignTaskRequest{
		Task: x.GetName(), Digest: x.GetDigest(), Taskrunner: taskrunner, Groups: []*swarmv1.TaskGroup{{Name: "peers", Peers: peers, Least: least}},
		Retries: 30, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
	})
	f.must(err)
	f.ids = append(f.ids, a.GetId())
}

// start has hosts run a job with more members than there are hosts.
func (f *fleet) start(hosts []string) {
	f.t.Helper()
	j, err := jobfile.Read("job.yaml", []byte("name: job\nimage: i\nnetwork: host\nrestarts: 30\ngrace: 5s\ngroups: [{name: main, command: a.py}, {name: more, replicas: 8, min_success: 5, command: b.py}]\n"))
	f.must(err)
	w, err := framework.WorldOf(j)
	f.must(err)
	body, err := w.Expanded().Encode()
	f.must(err)
	x := f.task("job-"+hosts[0], task.RunJob, string(body))
	q := jobrequest.Request(w)
	m := &swarmv1.AssignTaskRequest{
		Task: x.GetName(), Digest: x.GetDigest(), Hosts: slices.Sorted(slices.Values(hosts)), Retries: q.Retries, TimeoutMs: q.TimeoutMS, ExpiresUnixMs: time.Now().Add(time.Hour).UnixMilli(),
		Done: q.Done, ReadyMs: q.ReadyMS, LivesMs: q.LivesMS, Together: q.Together, GraceMs: q.GraceMS, Stops: q.Stops,
	}
	for _, g := range q.Groups {
		m.Groups = append(m.Groups, &swarmv1.TaskGroup{Name: g.Name, Peers: g.Peers, Least: g.Least})
	}
	a, err := f.op.AssignTask(f.t.Context(), m)
	f.must(err)
	f.ids = append(f.ids, a.GetId())
}

// jobs holds that each has one end, and that hosts were several members.
func (f *fleet) jobs() {
	f.t.Helper()
	seen := 0
	for id, a := range f.swarm.Board().Assignments {
		if !a.Shares {
			continue
		}
		seen++
		if f.t.Logf("job %s: %s in epoch %d: %s", id, a.End, a.Epoch, a.Reason); a.End.Verdict() != a.Verdict || len(a.Members) != 9 {
			f.t.Errorf("job %s has the end %q with the verdict %s, and %d members", id, a.End, a.Verdict, len(a.Members))
		}
	}
	if seen != jobsAtOnce {
		f.t.Errorf("there are %d jobs", seen)
	}
}

func (f *fleet) listen() (n int) {
	all, err := f.swarm.Operator().ListNodes(f.t.Context())
	f.must(err)
	time.Sleep(500 * time.Millisecond)
	for _, x := range all.GetNodes() {
		if x.GetLive() && x.GetOffer() != nil {
			n++
		}
	}
	return n
}

// strike has something go wrong, or right again.
func (f *fleet) strike(fault int) {
	s, sns := f.swarm, []string{"sn-0", "sn-1", "sn-2"}
	switch fault {
	case 0: // hosts lose their links
		for range 2 + f.rng.IntN(6) {
			f.cut(f.member())
		}
	case 1: // the leader dies, or comes back
		if f.gone != "" {
			s.Restart(f.gone)
			f.gone = ""
		} else if !slices.ContainsFunc(f.apart, func(n string) bool { return slices.Contains(sns, n) }) {
			f.gone = s.Leader()
			s.Crash(f.gone)
			f.leaders++
		}
	case 3: // the leader is cut off, if the others are enough
		if f.gone == "" && !slices.ContainsFunc(f.apart, func(n string) bool { return slices.Contains(sns, n) }) {
			f.cut(s.Leader())
		}
	case 5: // links are there again
		for _, name := range f.apart {
			s.Network.Join(name)
		}
		f.apart = nil
	case 2, 4: // hosts die
		for range 1 + f.rng.IntN(10) {
			if name := f.member(); f.hosts.Up(name, 0) {
				f.hosts.Kill(name)
				f.dead, f.killed = append(f.dead, name), f.killed+1
			}
		}
	case 6: // half of them come back
		f.revive(len(f.dead) / 2)
	}
}

// member is a host that carries out a task, or any if none does.
func (f *fleet) member() string {
	var busy []string
	for _, name := range f.names {
		if len(f.hosts.Machine(name).Left()) > 0 {
			busy = append(busy, name)
		}
	}
	if len(busy) == 0 {
		busy = f.names
	}
	return busy[f.rng.IntN(len(busy))]
}

func (f *fleet) cut(name string) {
	f.swarm.Network.Isolate(name)
	f.apart = append(f.apart, name)
}

// revive starts those again that died first, but for the last n.
func (f *fleet) revive(n int) {
	for len(f.dead) > n {
		f.hosts.Start(f.dead[0])
		f.dead = f.dead[1:]
	}
}

// mend has all go right again.
func (f *fleet) mend() {
	for _, name := range f.apart {
		f.swarm.Network.Join(name)
	}
	f.revive(0)
	if f.gone != "" {
		f.swarm.Restart(f.gone)
	}
	f.apart, f.gone = nil, ""
}

// pass lets time go by, and looks.
func (f *fleet) pass(d time.Duration) {
	f.t.Helper()
	for end := time.Now().Add(d); time.Now().Before(end); time.Sleep(500 * time.Millisecond) {
		f.look()
	}
}

// look holds that verdicts stay, and that programs of one assignment run in one epoch. A program whose host's process is dead, or has just
// begun again, runs on: nobody can end it.
func (f *fleet) look() {
	f.t.Helper()
	for id, a := range f.swarm.Board().Assignments {
		if verdict := fmt.Sprintf("%s (%s)", a.Verdict, a.Reason); a.Verdict != "" && f.verdicts[id] == "" {
			f.verdicts[id] = verdict
		} else if f.verdicts[id] != "" && verdict != f.verdicts[id] {
			f.t.Errorf("assignment %s ended as %s, then as %s", id, f.verdicts[id], verdict)
		}
	}
	epochs := map[string]uint32{}
	for _, name := range f.names {
		if !f.hosts.Up(name, 20*time.Second) {
			continue
		}
		for id, epoch := range f.hosts.Machine(name).Running() {
			if other := epochs[id]; other != 0 && other != epoch {
				f.t.Fatalf("programs of the epochs %d and %d of assignment %s run at a time, one on %s", other, epoch, id, name)
			}
			epochs[id] = epoch
		}
	}
}

// settle waits until all assignments are over, and nothing is left of them.
func (f *fleet) settle() {
	f.t.Helper()
	f.swarm.Until("all assignments to be over", func() bool {
		f.pass(500 * time.Millisecond)
		board := f.swarm.Board()
		return !slices.ContainsFunc(f.ids, func(id string) bool { return board.Assignments[id].Phase != task.Over })
	})
	f.swarm.Until("the hosts to be clean", func() bool {
		f.pass(500 * time.Millisecond)
		return !slices.ContainsFunc(f.names, func(n string) bool { return len(f.hosts.Machine(n).Left()) > 0 })
	})
	for _, name := range f.names {
		for l, n := range f.hosts.Machine(name).Begun() {
			if n != 1 {
				f.t.Errorf("%s started member %d of assignment %s, epoch %d, %d times", name, l.Member, l.Assignment, l.Epoch, n)
			}
		}
	}
}

// mail is the way of heartbeats to SNs: some are lost, before or after they were read, some come twice, and some of another time.
type mail struct {
	mu    sync.Mutex // guards what follows
	rng   *rand.Rand
	kept  map[string][]byte // a heartbeat of each host that may come again
	fates map[string]int
}

func newMail(seed uint64) *mail {
	return &mail{rng: rand.New(rand.NewPCG(seed, 101)), kept: map[string][]byte{}, fates: map[string]int{}} //nolint:gosec // no secret
}

// before stands in front of an SN's API.
func (m *mail) before(genuine http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != swarmv1connect.SessionServiceReportProcedure {
			genuine.ServeHTTP(w, r)
			return
		}
		body, err := io.ReadAll(io.LimitReader(r.Body, 1<<20))
		if err != nil {
			return
		}
		deliver := func(w http.ResponseWriter, body []byte) {
			again := r.Clone(r.Context())
			again.Body, again.ContentLength = io.NopCloser(bytes.NewReader(body)), int64(len(body))
			genuine.ServeHTTP(w, again)
		}
		fate, old := m.fate(r, body)
		switch fate {
		case "lost":
			http.Error(w, "lost", http.StatusBadGateway)
			return
		case "unanswered":
			deliver(httptest.NewRecorder(), body)
			http.Error(w, "lost", http.StatusBadGateway)
			return
		case "twice":
			deliver(httptest.NewRecorder(), body)
		}
		deliver(w, body)
		if old != nil { // one that was sent before comes after it
			deliver(httptest.NewRecorder(), old)
		}
	})
}

// fate is what becomes of a heartbeat.
func (m *mail) fate(r *http.Request, body []byte) (what string, old []byte) {
	who := r.TLS.PeerCertificates[0].URIs[0].String()
	m.mu.Lock()
	defer m.mu.Unlock()
	switch n := m.rng.IntN(40); n {
	case 0, 1, 2, 3:
		what = []string{"lost", "unanswered", "twice", "late"}[n]
	default:
		return "", nil
	}
	if what == "late" {
		if old = m.kept[who]; old == nil {
			what = "kept"
		}
		m.kept[who] = body
	}
	m.fates[what]++
	return what, old
}

// check holds that all of it has happened.
func (m *mail) check(t *testing.T) {
	t.Helper()
	t.Log("heartbeats: ", m.fates)
	for _, fate := range []string{"lost", "unanswered", "twice", "late"} {
		if m.fates[fate] == 0 {
			t.Errorf("no heartbeat was %s", fate)
		}
	}
}
