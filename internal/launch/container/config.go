package container

import (
	"cmp"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/docker/docker/api/types/container"
	"github.com/docker/docker/api/types/mount"
	"github.com/docker/docker/api/types/network"

	"github.com/swarmd/swarmd/internal/launch"
	"github.com/swarmd/swarmd/internal/launch/engine"
)

const (
	tmpDir = "/tmp"
	// maxTmp bounds what a program may put into /tmp, which is memory.
	maxTmp = 1 << 30 // bytes
)

// config is what the engine is told. The Spec is complete.
func (s Spec) config(role string, can capabilities) (*container.Config, *container.HostConfig, error) {
	mounts, err := s.mounts()
	if err != nil {
		return nil, nil, err
	}
	c := &container.Config{
		Image: s.Image, User: s.User, WorkingDir: s.WorkDir, Env: s.environ(), Entrypoint: s.Entrypoint, Cmd: s.Cmd,
		StopSignal: "SIGTERM", StopTimeout: s.stopTimeout(),
		Labels: s.labels(role),
	}
	if !s.custom() {
		c.Entrypoint = append([]string{"python3", "-u", s.programPath()}, s.Args...)
	}
	c.Entrypoint = slices.Concat(s.Front, c.Entrypoint)
	if s.NoHealth {
		c.Healthcheck = &container.HealthConfig{Test: []string{"NONE"}}
	}
	mode := container.NetworkMode(s.networkMode())
	switch {
	case mode.IsContainer(): // it comes with a name
	case mode.IsHost(): // and so does this, unless a name is wanted
		c.Hostname = s.Hostname
	default:
		c.Hostname = cmp.Or(s.Hostname, hostname(s.Node))
	}
	pids := s.Pids
	h := &container.HostConfig{
		NetworkMode: mode, IpcMode: container.IpcMode(s.ipcMode()), ReadonlyRootfs: true, Mounts: mounts,
		CapDrop: []string{"ALL"}, CapAdd: s.CapAdd, SecurityOpt: append([]string{"no-new-privileges"}, s.SecurityOpt...),
		DNS: s.DNS, ExtraHosts: s.Hosts, GroupAdd: s.GroupAdd, Privileged: s.Privileged, LogConfig: can.logging,
		Resources: container.Resources{
			PidsLimit: &pids, Memory: s.Memory, MemorySwap: s.Memory, // swap counts in, so that the limit is one
			NanoCPUs: int64(s.CPUs * 1e9), DeviceRequests: s.gpuRequests(),
		},
	}
	if s.Privileged { // contradictions, which some engines refuse
		h.CapDrop, h.SecurityOpt = nil, s.SecurityOpt
	}
	if h.IpcMode.IsPrivate() || h.IpcMode.IsShareable() {
		h.ShmSize = s.ShmSize
	}
	if can.init && !s.NoInit {
		h.Init = &can.init
	}
	for _, text := range s.Devices {
		d, err := parseDevice(text)
		if err != nil {
			return nil, nil, err
		}
		h.Devices = append(h.Devices, d)
	}
	if !mounted(mounts, tmpDir) {
		h.Tmpfs = map[string]string{tmpDir: fmt.Sprintf("rw,exec,nosuid,nodev,mode=1777,size=%d", s.tmpSize())}
	}
	return c, h, nil
}

// labels are the user's, and ours, which hold.
func (s Spec) labels(role string) map[string]string {
	all := map[string]string{}
	for _, l := range s.Labels {
		k, v, _ := strings.Cut(l, "=")
		all[k] = v
	}
	maps.Copy(all, map[string]string{
		engine.LabelRole: role, engine.LabelScope: s.Scope, engine.LabelNode: s.Node, engine.LabelPlatform: strings.ToUpper(s.Platform),
		engine.LabelIncarnation: s.Incarnation,
	})
	return all
}

// endpoint is the program's place in its network. A probe takes any address: the program's may be another's still.
func (s Spec) endpoint(role string) (*network.NetworkingConfig, error) {
	ip := s.IP
	if role == engine.RoleProbe {
		ip = ""
	}
	return engine.Endpoint(s.networkMode(), ip, "ml-ip")
}

func mounted(list []mount.Mount, target string) bool {
	for _, m := range list {
		if m.Target == target {
			return true
		}
	}
	return false
}

// tmpSize is that of /tmp in bytes: it counts as the program's memory, so it leaves half of that.
func (s Spec) tmpSize() int64 {
	if s.Memory > 0 {
		return min(s.Memory/2, maxTmp)
	}
	return maxTmp
}

// environ is the program's environment, beside what its image sets.
func (s Spec) environ() []string {
	// A user ID that the image has no name for breaks what asks for a home directory or a name.
	list := []string{
		"HOME=" + tmpDir, "TMPDIR=" + tmpDir, "XDG_CACHE_HOME=" + tmpDir + "/.cache", "USER=swarm", "LOGNAME=swarm", "PYTHONUNBUFFERED=1",
		// Engines with NVIDIA's runtime as the default give what an image asks for, which is often all.
		"NVIDIA_VISIBLE_DEVICES=void",
	}
	if s.GPUs != "" {
		list[len(list)-1] = "NVIDIA_VISIBLE_DEVICES=" + s.GPUs
	}
	if s.DataDir != "" {
		list = append(list, "DATA_DIR="+engine.DataDir)
	}
	if s.ModelDir != "" {
		list = append(list, "MODEL_DIR="+engine.ModelDir)
	}
	list = append(list, s.Env...)
	if s.BridgeDir != "" {
		list = append(list, "SWARM_BRIDGE_DIR="+engine.BridgeDir)
	}
	return launch.LastWins(list)
}

func (s Spec) gpuRequests() []container.DeviceRequest {
	if s.GPUs == "" {
		return nil
	}
	// With utility alone there would be nvidia-smi and no CUDA.
	r := container.DeviceRequest{Capabilities: [][]string{{"gpu", "compute", "utility"}}}
	if s.GPUs == "all" {
		r.Count = -1
	} else {
		r.DeviceIDs = strings.Split(s.GPUs, ",")
	}
	return []container.DeviceRequest{r}
}

// hostname makes a host name of a node's.
func hostname(node string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case r >= 'a' && r <= 'z', r >= '0' && r <= '9', r == '-':
			return r
		case r >= 'A' && r <= 'Z':
			return r - 'A' + 'a'
		}
		return '-'
	}, node)
	return strings.TrimPrefix(strings.Trim(name[:min(len(name), 60)], "-")+"-ml", "-")
}

func newIncarnation() string {
	var b [12]byte
	_, _ = rand.Read(b[:]) // never fails
	return hex.EncodeToString(b[:])
}
