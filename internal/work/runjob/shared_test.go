package runjob_test

import (
	"context"
	"errors"
	"io"
	"net/http"
	"net/netip"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/filters"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/consensus/task"
	"github.com/swarmd/swarmd/internal/launch/engine"
	"github.com/swarmd/swarmd/internal/launch/enginetest"
	"github.com/swarmd/swarmd/internal/work"
	"github.com/swarmd/swarmd/internal/work/runjob"
)

// meets are two ranks that find each other by name.
var meets = python(
	"import os, socket, time",
	"rank = int(os.environ['SWARM_NODE_RANK'])",
	"names = [socket.gethostbyname('node-%d' % i) for i in range(2)]",
	"assert names == os.environ['SWARM_NODE_IPS'].split() and socket.gethostname() == 'node-%d' % rank",
	"if rank == 0:",
	"    c, at = socket.create_server((names[0], 7000)).accept()",
	"    c.sendall(b'hello'); c.close()",
	"    print('met', at[0] == names[1])",
	"for _ in range(600 * rank):",
	"    try: c = socket.create_connection(('node-0', 7000), 1); break",
	"    except OSError: time.sleep(0.1)",
	"if rank == 1: print('heard', c.makefile().read())",
)

// owned makes a network as a host's owner does, with a way out or without.
func (l lab) owned(subnet string, internal bool) (name string) {
	l.t.Helper()
	name = l.scope + "-lab"
	made, err := l.e.NetworkCreate(l.t.Context(), name, network.CreateOptions{Internal: internal, IPAM: &network.IPAM{Config: []network.IPAMConfig{{Subnet: subnet}}}})
	if err != nil {
		l.t.Fatal(err)
	}
	l.t.Cleanup(func() {
		if err := l.e.NetworkRemove(context.WithoutCancel(l.t.Context()), made.ID); err != nil {
			l.t.Error(err)
		}
	})
	return name
}

// told prepares members, and gives each the addresses of the others.
func (l lab) told(c *runjob.Containers, jobs []work.Job) (addresses []string) {
	l.t.Helper()
	for _, j := range jobs {
		if err := c.Prepare(l.t.Context(), j); err != nil {
			l.t.Fatal(err)
		}
		a, err := runjob.AddressOf(l.t.Context(), c, j.Label)
		if _, bad := netip.ParseAddr(a); err != nil || bad != nil {
			l.t.Fatalf("address %q, %v", a, err)
		}
		j.World[j.Member].Own = a // of all
		addresses = append(addresses, a)
	}
	return addresses
}

// holders are the containers that hold addresses.
func (l lab) holders() []container.Summary {
	l.t.Helper()
	all, err := l.e.ContainerList(l.t.Context(), container.ListOptions{All: true, Filters: filters.NewArgs(
		filters.Arg("label", engine.LabelScope+"="+l.scope), filters.Arg("label", engine.LabelHolds+"=address"),
	)})
	if err != nil {
		l.t.Fatal(err)
	}
	return all
}

// TestMembersInANetworkThatHostsShare holds that their addresses there are known before any of them starts, also to a SWOP that was restarted, that they
// have these when they start, and find each other by names.
func TestMembersInANetworkThatHostsShare(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	name := l.owned("10.213.77.0/28", true)
	jobs := l.jobs(2, meets, "image: "+enginetest.TestImage, "command: train.py", "replicas: 2", "network: "+name, "grace: 1s")
	c := l.containers()
	if err := c.Prepare(t.Context(), jobs[0]); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), jobs[0]); err == nil || !strings.Contains(err.Error(), "has not told which address its member has") {
		t.Errorf("started without the addresses of others: %v", err)
	}
	before := l.told(c, jobs)
	if again := l.told(l.containers(), jobs); again[0] != before[0] || again[1] != before[1] || again[0] == again[1] {
		t.Errorf("addresses %q, of a SWOP that was restarted %q", before, again)
	}
	for _, f := range l.found(c, 2) {
		if f.State != task.Prepared {
			t.Errorf("prepared: %+v", f)
		}
	}
	for _, x := range l.holders() {
		info, err := l.e.ContainerInspect(t.Context(), x.ID)
		if err != nil || info.Config.Healthcheck == nil || !slices.Equal(info.Config.Healthcheck.Test, []string{"NONE"}) {
			t.Errorf("what holds an address runs something of its image: %+v, %v", info.Config, err)
		}
	}
	changed := jobs[0]
	changed.World = []task.Site{jobs[0].World[1], jobs[0].World[0]}
	if _, err := c.Start(t.Context(), changed); err == nil || !strings.Contains(err.Error(), "before it was restarted") {
		t.Errorf("started at another's address: %v", err)
	}
	changed.World = slices.Clone(jobs[0].World)
	changed.World[1].Own = "10.213.78.1"
	if _, err := c.Start(t.Context(), changed); err == nil || !strings.Contains(err.Error(), "tells the address 10.213.78.1 of its member, and network "+name+" has 10.213.77.0/28") {
		t.Errorf("started with a member in another network: %v", err)
	}
	for _, j := range jobs {
		if _, err := c.Start(t.Context(), j); err != nil {
			t.Fatal(err)
		}
	}
	if left := l.holders(); len(left) > 0 {
		t.Errorf("still held: %+v", left)
	}
	for i, f := range l.until(c, 2, task.Exited) {
		if got, want := l.lines(c, jobs[i]), []string{"met True", "heard hello"}[i]; f.Code != 0 || got != want {
			t.Errorf("%+v: %q, want %q", f, got, want)
		}
	}
	l.clean(c, jobs)
}

// TestAnAddressThatWasTold is held again, whatever the engine would give now.
func TestAnAddressThatWasTold(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	jobs := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "network: "+l.owned("10.213.77.48/28", true), "grace: 1s")
	c := l.containers()
	l.told(c, jobs)
	for _, jobs[0].Told = range []string{"10.213.77.60", "10.213.77.60", "10.213.77.55"} {
		if got := l.told(c, jobs)[0]; got != jobs[0].Told {
			t.Errorf("%s is held, want %s, which was told", got, jobs[0].Told)
		}
	}
	l.clean(c, jobs)
}

// TestAnAddressThatIsTaken: a member waits, and is started when it is free; its status says in which network it is.
func TestAnAddressThatIsTaken(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	name := l.owned("10.213.77.16/28", false)
	jobs := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "network: "+name, "grace: 1s")
	c := l.containers()
	address := l.told(c, jobs)[0]
	for _, x := range l.holders() {
		if err := l.e.ContainerRemove(t.Context(), x.ID, container.RemoveOptions{Force: true, RemoveVolumes: true}); err != nil {
			t.Fatal(err)
		}
	}
	_, err := runjob.AddressOf(t.Context(), c, jobs[0].Label)
	if passing, is := errors.AsType[*work.Passing](err); !is || !strings.Contains(passing.Words, "gone from its host") {
		t.Errorf("nothing holds it: %v", err)
	}
	place, err := engine.Endpoint(name, address, "ip")
	if err != nil {
		t.Fatal(err)
	}
	other, err := l.e.ContainerCreate(t.Context(), &container.Config{Image: enginetest.TestImage, Cmd: []string{"sleep", "1000"}, Labels: map[string]string{engine.LabelScope: l.scope}},
		&container.HostConfig{NetworkMode: container.NetworkMode(name)}, place, nil, "")
	if err == nil {
		err = l.e.ContainerStart(t.Context(), other.ID, container.StartOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	for range 2 {
		_, err = c.Start(t.Context(), jobs[0])
		if passing, is := errors.AsType[*work.Passing](err); !is || !strings.Contains(passing.Words, "taken the address") {
			t.Errorf("at another's address: %v", err)
		}
	}
	if err := l.e.ContainerRemove(t.Context(), other.ID, container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if _, err := c.Start(t.Context(), jobs[0]); err != nil {
		t.Fatal(err)
	}
	if f := l.until(c, 1, task.Ready)[0]; f.Text != "container, open: network "+name+", with a way out" {
		t.Errorf("%+v", f)
	}
	l.clean(c, jobs)
}

// TestNetworksThatAreNone of the hosts' owners, or that give no addresses, are refused with what can be done.
func TestNetworksThatAreNone(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	c := l.containers()
	private := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "grace: 1s")
	if err := c.Prepare(t.Context(), private[0]); err != nil {
		t.Fatal(err)
	}
	if a, err := runjob.AddressOf(t.Context(), c, private[0].Label); a != "" || err != nil {
		t.Errorf("a member of a private network tells %q, %v", a, err)
	}
	theirs, err := l.e.NetworkList(t.Context(), network.ListOptions{Filters: filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+l.scope))})
	if err != nil || len(theirs) != 1 {
		t.Fatal(theirs, err)
	}
	for name, want := range map[string]string{l.scope + "-nothing": "docker network create --driver overlay", theirs[0].Name: "is one that swarmd has made", theirs[0].ID[:12]: "whose ID begins so"} {
		jobs := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "network: "+name, "grace: 1s")
		jobs[0].Assignment.ID, jobs[0].Label.Assignment = "8", "8"
		err := c.Prepare(t.Context(), jobs[0])
		if said := work.Explained(err); err == nil || !strings.Contains(said, want) {
			t.Errorf("%s: %v, want %q", name, said, want)
		}
		if err := c.Clean(t.Context(), jobs[0].Label); err != nil {
			t.Error(err)
		}
	}
	l.clean(c, private)
}

// TestAContainerThatWasNotFilled is made anew, and not started without its source, also where the engine was gone when it was to be removed.
func TestAContainerThatWasNotFilled(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	name := l.owned("10.213.77.32/28", true)
	jobs := l.jobs(1, python("print('filled')"), "image: "+enginetest.TestImage, "command: train.py", "network: "+name, "grace: 1s")
	c := l.containers()
	address := l.told(c, jobs)[0]
	var cut atomic.Bool
	proxy := enginetest.Between(t, l.e, enginetest.Faults{Ask: func(r *http.Request) error {
		if r.Method == http.MethodPut && strings.HasSuffix(r.URL.Path, "/archive") || r.Method == http.MethodDelete && cut.Load() {
			cut.Store(true)
			return errors.New("the engine is gone")
		}
		return nil
	}})
	direct := c.Open
	c.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, proxy) }
	for range 2 {
		_, err := c.Start(t.Context(), jobs[0])
		if _, is := errors.AsType[*work.Passing](err); !is || !cut.Load() {
			t.Errorf("not filled: %v", err)
		}
		if held := l.holders(); len(held) != 1 || held[0].NetworkSettings.Networks[name].IPAddress != address {
			t.Errorf("its address is held by %+v", held)
		}
	}
	c.Open = direct
	if _, err := c.Start(t.Context(), jobs[0]); err != nil {
		t.Fatal(err)
	}
	if f := l.until(c, 1, task.Exited)[0]; f.Code != 0 || l.lines(c, jobs[0]) != "filled" {
		t.Errorf("%+v: %q", f, l.lines(c, jobs[0]))
	}
	l.clean(c, jobs)
}

// TestAnAddressOfSomethingElse: no member starts when another host tells an address of its own that something else has here, or while the network is not
// known. What has it may be that host's member, at the same engine.
func TestAnAddressOfSomethingElse(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	name := l.owned("10.213.77.48/28", true)
	jobs := l.jobs(2, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "replicas: 2", "network: "+name, "grace: 1s")
	jobs[1].Node, jobs[1].World[1].Node = "swop-2", "swop-2"
	hosts := []*runjob.Containers{l.containers(), l.containers()}
	hosts[1].Node = "swop-2"
	for i, c := range hosts {
		l.told(c, jobs[i:i+1])
	}
	other, err := l.e.ContainerCreate(t.Context(), &container.Config{Image: enginetest.TestImage, Cmd: []string{"sleep", "1000"}, Labels: map[string]string{engine.LabelScope: l.scope}},
		&container.HostConfig{NetworkMode: container.NetworkMode(name)}, nil, nil, "")
	if err == nil {
		err = l.e.ContainerStart(t.Context(), other.ID, container.StartOptions{})
	}
	if err != nil {
		t.Fatal(err)
	}
	x, err := l.e.ContainerInspect(t.Context(), other.ID)
	if err != nil {
		t.Fatal(err)
	}
	lies := jobs[0]
	lies.World = slices.Clone(lies.World)
	lies.World[1].Own = x.NetworkSettings.Networks[name].IPAddress
	if _, err := hosts[0].Start(t.Context(), lies); err == nil || !strings.Contains(err.Error(), "host swop-2 tells the address "+lies.World[1].Own+" of its member, and this host's engine has given that to something else") {
		t.Errorf("started with a member where another container is: %v", err)
	}
	forgets := enginetest.Between(t, l.e, enginetest.Faults{Answer: func(r *http.Response) error {
		if strings.HasSuffix(r.Request.URL.Path, "/networks/"+name) {
			says(r, http.StatusNotFound, "network not found")
		}
		return nil
	}})
	direct := hosts[0].Open
	hosts[0].Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, forgets) }
	if _, err := hosts[0].Start(t.Context(), jobs[0]); err == nil || !strings.Contains(err.Error(), "knows network "+name+" no more") {
		t.Errorf("started in a network that nobody knows: %v", err)
	}
	hosts[0].Open = direct
	for i, c := range hosts {
		if _, err := c.Start(t.Context(), jobs[i]); err != nil {
			t.Error(err)
		}
	}
	if err := l.e.ContainerRemove(t.Context(), other.ID, container.RemoveOptions{Force: true}); err != nil {
		t.Fatal(err)
	}
	if err := hosts[1].Clean(t.Context(), jobs[1].Label); err != nil {
		t.Fatal(err)
	}
	l.clean(hosts[0], jobs[:1])
}

// says has an engine answer something else.
func says(r *http.Response, code int, message string) {
	text := `{"message": "` + message + `"}`
	r.StatusCode, r.Body, r.ContentLength, r.Header = code, io.NopCloser(strings.NewReader(text)), int64(len(text)), http.Header{"Content-Type": {"application/json"}}
}

// TestAMemberIsMadeAgain where the engine can't start it as it was made, also if that knows the network no more, as an overlay in which it has no container.
func TestAMemberIsMadeAgain(t *testing.T) {
	l := newLab(t)
	enginetest.NeedImage(t, l.e, enginetest.TestImage, "the tests' own")
	name := l.owned("10.213.77.64/28", true)
	jobs := l.jobs(1, nil, "image: "+enginetest.TestImage, "command: sleep 1000", "network: "+name, "grace: 1s")
	c := l.containers()
	address := l.told(c, jobs)[0]
	var refused atomic.Int32
	proxy := enginetest.Between(t, l.e, enginetest.Faults{Answer: func(r *http.Response) error {
		switch path := r.Request.URL.Path; {
		case strings.HasSuffix(path, "/networks/"+name) && refused.Load() > 0:
			says(r, http.StatusNotFound, "network not found")
		case strings.HasSuffix(path, "/start") && refused.Add(1) == 1:
			id := strings.TrimSuffix(path, "/start")
			if err := l.e.ContainerKill(t.Context(), id[strings.LastIndexByte(id, '/')+1:], "KILL"); err != nil {
				return err
			}
			says(r, http.StatusInternalServerError, "exec: docker-init: executable file not found in $PATH")
		}
		return nil
	}})
	c.Open = func(ctx context.Context) (*engine.Engine, error) { return engine.OpenAt(ctx, proxy) }
	if _, err := c.Start(t.Context(), jobs[0]); err != nil {
		t.Fatal(err)
	}
	l.until(c, 1, task.Ready)
	if all, err := l.e.ContainerList(t.Context(), container.ListOptions{Filters: filters.NewArgs(filters.Arg("label", engine.LabelScope+"="+l.scope))}); err != nil || len(all) != 1 || all[0].NetworkSettings.Networks[name].IPAddress != address {
		t.Errorf("%+v, %v", all, err)
	}
	l.clean(c, jobs)
}
