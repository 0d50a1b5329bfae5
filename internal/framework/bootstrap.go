package framework

import (
	"fmt"
	"path"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/jobfile"
)

// Bootstrap is what a program of Oracle's ads opctl needs that starts its cluster itself. The zero value: it is none.
type Bootstrap struct {
	Itself bool   // it does; it finds its own address by its host's name
	Key    string // the folder where it finds a key to sign in with; empty: it has one
}

// keyFolder is beside the file that names all members, and keyConfig there what OCI_CONFIG_FILE names.
const (
	keyFolder = "oci"
	keyConfig = "config"
)

// afterwards is how long the runner of ads goes on after it has written the file stop: long enough that hosts see it. It waits for copies by itself otherwise,
// which hosts make, and await.
const afterwards = 5 * time.Second

const afterwardsVar = "POST_PROCESSING_WAIT"

// signs are the beginnings of variables by which a program says how it signs in.
var signs = []string{"OCI_IAM_TYPE", "OCI_CONFIG_", "OCIFS_CONFIG_", "OCI_RESOURCE_PRINCIPAL_"}

// bootstraps reports whether members of a group start their cluster themselves: they have an image's own idea of one, and a folder in which to meet.
func bootstraps(w *World, g Group) bool {
	if w.job.Compat != jobfile.OCI || w.job.Framework != jobfile.None || w.job.WorkDir == "" {
		return false
	}
	_, is := firstSet(g.Env, []string{"CLUSTER_TYPE", "OCI__CLUSTER_TYPE"})
	return is
}

// bootstrap says what such a member needs, and gives it variables. The library asks OCI's service for the subnet of JOB_OCID unless that is set and empty; then
// it meets in WORK_DIR itself.
func bootstrap(w *World, p Placement, m Member) (b Bootstrap, vars []jobfile.Var) {
	g := w.Groups[m.group]
	if !bootstraps(w, g) {
		return b, nil
	}
	if id, is := valueOf(g.Env, "JOB_OCID"); !is || id == "" {
		b.Itself = true
		vars = append(vars, jobfile.Var{Name: "JOB_OCID"}, jobfile.Var{Name: "OCI__WORK_DIR", Value: p.Members[m.Rank].WorkDir}, jobfile.Var{Name: "WORK_DIR", Value: p.Members[m.Rank].WorkDir})
	}
	if !hasSigner(g) {
		b.Key = path.Join(path.Dir(p.Metadata), keyFolder)
		vars = append(vars, jobfile.Var{Name: "OCI_CONFIG_FILE", Value: path.Join(b.Key, keyConfig)}, jobfile.Var{Name: "OCI_IAM_TYPE", Value: "api_key"})
	}
	return b, append(vars, jobfile.Var{Name: afterwardsVar, Value: strconv.Itoa(int(afterwards.Seconds()))})
}

// hasSigner reports whether a group says how it signs in, also by a secret.
func hasSigner(g Group) bool {
	is := func(name string) bool {
		return slices.ContainsFunc(signs, func(s string) bool { return strings.HasPrefix(name, s) })
	}
	return slices.ContainsFunc(g.Env, func(v jobfile.Var) bool { return is(v.Name) }) || slices.ContainsFunc(g.Secrets, func(s jobfile.Secret) bool { return !s.File && is(s.Name) })
}

// checkBootstrap refuses a wait that outlasts the grace: how a program has ended is told after it.
func (w *World) checkBootstrap() error {
	for _, g := range w.Groups {
		if !bootstraps(w, g) {
			continue
		}
		wait := afterwards
		if s, is := valueOf(g.Env, afterwardsVar); is {
			n, err := strconv.Atoi(s)
			if err != nil || n < 0 || n > int(jobfile.MaxGrace.Seconds()) {
				return fmt.Errorf("group %s: env.%s is %.40q: write seconds, 0 to %d", g.Name, afterwardsVar, s, int(jobfile.MaxGrace.Seconds()))
			}
			wait = time.Duration(n) * time.Second
		}
		if wait >= w.job.Grace {
			return fmt.Errorf("group %s: its members wait %v (%s) after they have written stop, and only then say by their exit code whether they have failed, which counts within grace, %v: write grace: %v",
				g.Name, wait, afterwardsVar, w.job.Grace, jobfile.Duration(min(wait+30*time.Second, jobfile.MaxGrace)))
		}
	}
	return nil
}
