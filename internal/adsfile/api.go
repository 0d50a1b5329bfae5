package adsfile

import (
	"strings"
	"time"

	"github.com/swarmd/swarmd/internal/jobfile"
	"github.com/swarmd/swarmd/internal/shellwords"
	"github.com/swarmd/swarmd/internal/yamlfile"
)

// The parts of a job in Oracle's API. One with several nodes has the first of them, with a list of groups that have the next three each.
const (
	nodesPart   = "jobNodeConfigurationDetails"
	workPart    = "jobConfigurationDetails"
	machinePart = "jobInfrastructureConfigurationDetails"
	imagePart   = "jobEnvironmentConfigurationDetails"
	mountsPart  = "jobStorageMountConfigurationDetailsList"
	logPart     = "jobLogConfigurationDetails"
)

// otherNames are those that files for Oracle's command line have some of these parts under.
var otherNames = map[string]string{"configurationDetails": workPart, "infrastructureConfigurationDetails": machinePart, "logConfigurationDetails": logPart, "environmentConfigurationDetails": imagePart, "nodeConfigurationDetails": nodesPart}

// jobParts tell a job from other files.
var jobParts = []string{nodesPart, workPart, imagePart, machinePart}

// readAPI reads a job as Oracle's API has it, in the spelling of its documents or of its libraries.
func readAPI(r *reader, v yamlfile.Value) {
	f := r.fields(v, "displayName", "description", "compartmentId", "projectId", "id", "createdBy", "timeCreated", "lifecycleState", "lifecycleDetails", "freeformTags", "definedTags", "systemTags", "opcParentRptUrl",
		nodesPart, workPart, machinePart, imagePart, mountsPart, logPart)
	if f == nil {
		return
	}
	j := r.job
	r.name(f.Get("displayName", 0))
	f.ignore(noTenancy, "compartmentId", "projectId")
	f.ignore(noTags, "freeformTags", "definedTags", "systemTags", "description")
	f.ignore("the swarm gives each run an ID and a state", "id", "createdBy", "timeCreated", "lifecycleState", "lifecycleDetails", "opcParentRptUrl")
	f.ignore(noLogs, logPart)
	for _, item := range f.Get(mountsPart, 0).List() {
		readStorage(r, item)
	}
	if !f.given(nodesPart) {
		top := readNode(r, f)
		j.Replicas = 1
		if r.Broken() || r.seed(f.Of, &top.Settings) || r.Broken() {
			return
		}
		top.Volumes = j.Volumes
		j.Settings = top.Settings
		j.Env = r.filled(f.Of, ofFile(r.vars, nil))
		return
	}
	checkEmpty(r, f, workPart, machinePart, imagePart)
	readNodes(r, f.Get(nodesPart, 0))
}

// checkEmpty refuses settings beside those of groups: Oracle has them empty there.
func checkEmpty(r *reader, f *fields, names ...string) {
	for _, name := range names {
		v := f.Get(name, 0)
		if v.Null() {
			continue
		}
		p := r.fields(v, "jobType", "jobInfrastructureType", "jobEnvironmentType")
		if p == nil {
			continue
		}
		for _, t := range []string{"jobType", "jobInfrastructureType", "jobEnvironmentType"} {
			if s := text(p.Get(t, 0)); s != "" && s != "EMPTY" && s != "MULTI_NODE" {
				p.refuse(t, "is %s beside groups of nodes, which have it each: write EMPTY", yamlfile.Excerpt(s))
			}
		}
	}
}

// readNodes reads the groups of a job with several nodes.
func readNodes(r *reader, v yamlfile.Value) {
	f := r.fields(v, "jobNodeType", "startupOrder", "maximumRuntimeInMinutes", "jobNetworkConfiguration", "jobNodeGroupConfigurationDetailsList")
	if f == nil {
		return
	}
	j := r.job
	if t := text(f.Get("jobNodeType", 0)); t != "" && t != "MULTI_NODE" {
		f.refuse("jobNodeType", "is %q: MULTI_NODE is read", yamlfile.Excerpt(t))
	}
	switch order := text(f.Get("startupOrder", 0)); order {
	case "", "IN_PARALLEL":
		j.Start = jobfile.Parallel
	case "IN_ORDER":
		j.Start = jobfile.InOrder
	default:
		f.refuse("startupOrder", "is %q: write IN_ORDER or IN_PARALLEL", yamlfile.Excerpt(order))
	}
	r.minutes(f, "maximumRuntimeInMinutes")
	if n := r.fields(f.Get("jobNetworkConfiguration", 0), "jobNetworkType", "subnetId"); n != nil {
		n.ignore(noSubnet, "jobNetworkType", "subnetId")
	}
	items := f.Get("jobNodeGroupConfigurationDetailsList", yamlfile.Broken).List()
	if len(items) == 0 || len(items) > jobfile.MaxGroups {
		f.Of.Find(yamlfile.Broken, "%s has %d groups: write 1 to %d", f.Of.Name, len(items), jobfile.MaxGroups)
		return
	}
	longest := time.Duration(0)
	for _, item := range items {
		g := r.fields(item, "name", "replicas", "minimumSuccessReplicas", workPart, machinePart, imagePart)
		if g == nil {
			continue
		}
		x := readNode(r, g)
		x.Name = group(g.Get("name", yamlfile.Broken))
		x.Replicas = 1
		if n, ok := g.Get("replicas", 0).Number(1, jobfile.MaxMembers); ok {
			x.Replicas = n
		}
		if n, ok := g.Get("minimumSuccessReplicas", 0).Number(1, x.Replicas); ok {
			x.MinSuccess = n
		}
		x.Volumes = j.Volumes
		if v, is := clusterType(r); is {
			v.at.Find(yamlfile.Broken, "%s: %s=%s makes a cluster of a job with one kind of nodes, and this one has groups: write it as a job without %s, or leave the variable out", v.at.Name, v.Name, yamlfile.Excerpt(v.Value), nodesPart)
		}
		x.Env = r.filled(g.Of, ofFile(r.vars, nil))
		j.Groups = append(j.Groups, x.Group)
		longest = max(longest, x.most)
	}
	if longest > 0 && !f.given("maximumRuntimeInMinutes") {
		j.Timeout = longest
		f.Of.Find(yamlfile.Noted, "a job has one timeout: the longest maximumRuntimeInMinutes of its groups, %s", jobfile.Duration(longest))
	}
	j.Volumes = nil
}

// nodeGroup is a group while it is read.
type nodeGroup struct {
	jobfile.Group
	most time.Duration // that it runs; 0: not said
}

// readNode reads what the nodes of a group are, and what they run. Its variables are in r.vars.
func readNode(r *reader, f *fields) (x nodeGroup) {
	r.vars = nil
	var args []string
	if m := r.fields(f.Get(machinePart, 0), "jobInfrastructureType", "shapeName", "blockStorageSizeInGBs", "jobShapeConfigDetails", "subnetId"); m != nil {
		m.ignore(noSubnet, "subnetId")
		x.Resources = r.shape(m, "shapeName", "jobShapeConfigDetails", "blockStorageSizeInGBs")
	}
	if e := r.fields(f.Get(imagePart, 0), "jobEnvironmentType", "image", "imageDigest", "imageSignatureId", "cmd", "entrypoint"); e != nil {
		if t := text(e.Get("jobEnvironmentType", 0)); t != "" && t != "OCIR_CONTAINER" && t != "DEFAULT" && t != "EMPTY" {
			e.refuse("jobEnvironmentType", "is %q: OCIR_CONTAINER is read", yamlfile.Excerpt(t))
		}
		if x.Image = r.imageOf(e.Get("image", 0)); x.Image == "" {
			x.Image = r.image
		}
		r.digest(e, "imageDigest", &x.Image)
		e.ignore("hosts' policies say which images they run, by digest", "imageSignatureId")
		x.Command = commandWords(e.Get("entrypoint", 0))
		x.Args = r.cmd(e.Get("cmd", 0), x.Command)
	}
	if w := r.fields(f.Get(workPart, 0), "jobType", "environmentVariables", "commandLineArguments", "maximumRuntimeInMinutes", "startupProbeDetails"); w != nil {
		r.vars = r.variables(w.Get("environmentVariables", 0))
		args = arguments(w.Get("commandLineArguments", 0))
		if n, ok := w.Get("maximumRuntimeInMinutes", 0).Number(1, int(jobfile.MaxTimeout.Minutes())); ok {
			x.most = time.Duration(n) * time.Minute
			if f.Has(nodesPart) || !f.Has("name") {
				r.job.Timeout = x.most
			}
		}
		x.Ready = readProbe(r, w.Get("startupProbeDetails", 0))
	}
	readVariables(r, &x)
	x.Args = append(x.Args, args...)
	if x.Image == "" && !r.Broken() {
		f.Of.Find(yamlfile.Broken, "%sthere is no image: the program of such a job is an artifact that was uploaded: put it into an image and write %s, or name one with --image NAME", prefixed(f.Of.Name), imagePart)
	}
	return x
}

// readVariables takes what ADS has put into variables of a node: the image and its command, whose words are parted by commas.
func readVariables(r *reader, x *nodeGroup) {
	if image, is := r.said("CONTAINER_CUSTOM_IMAGE", "DOCKER_CUSTOM_IMAGE"); is {
		if name := r.imageOf(valueOf(image)); x.Image == "" || x.Image == r.image {
			x.Image = name
		}
	}
	for _, part := range []struct {
		name string
		to   *[]string
	}{{"CONTAINER_ENTRYPOINT", &x.Command}, {"CONTAINER_CMD", &x.Args}} {
		v, is := r.said(part.name)
		if !is || v.Value == "" {
			continue
		}
		if len(*part.to) > 0 {
			v.at.Find(yamlfile.Broken, "%s: %s stands beside the same in %s: write one of them", v.at.Name, v.Name, imagePart)
			continue
		}
		words := strings.Split(v.Value, ",")
		for i, w := range words {
			words[i] = strings.TrimSpace(w)
		}
		*part.to = checked(valueOf(v), words)
		v.at.Find(yamlfile.Noted, "%s: %s becomes the words %s: ADS parts them by commas", v.at.Name, v.Name, yamlfile.Excerpt(shellwords.Join(words)))
	}
	if len(x.Command)+len(x.Args) > 0 {
		return
	}
	for _, name := range []string{"JOB_RUN_ENTRYPOINT", "CODE_ENTRYPOINT", "GIT_URL"} {
		if v, is := r.said(name); is {
			v.at.Find(yamlfile.Broken, "%s: %s=%s runs an artifact that was uploaded, which nobody fetches: put the program into an image, and write its entrypoint or cmd in %s", v.at.Name, v.Name, yamlfile.Excerpt(v.Value), imagePart)
			return
		}
	}
}

func prefixed(name string) string {
	if name == "" {
		return ""
	}
	return name + ": "
}

// readProbe reads how a node is asked whether it is up.
func readProbe(r *reader, v yamlfile.Value) (ready jobfile.Ready) {
	if v.Null() {
		return ready
	}
	f := r.fields(v, "jobProbeCheckType", "command", "initialDelayInSeconds", "periodInSeconds", "failureThreshold")
	if f == nil {
		return ready
	}
	if t := text(f.Get("jobProbeCheckType", 0)); t != "" && t != "EXEC" {
		f.refuse("jobProbeCheckType", "is %q: EXEC is read", yamlfile.Excerpt(t))
	}
	ready = jobfile.Ready{Command: commandWords(f.Get("command", yamlfile.Broken)), Period: jobfile.DefaultPeriod, Timeout: jobfile.DefaultPeriod}
	if n, ok := f.Get("periodInSeconds", 0).Number(1, 3600); ok {
		ready.Period = time.Duration(n) * time.Second
	}
	f.ignore("a member is asked from its start on", "initialDelayInSeconds")
	if n, ok := f.Get("failureThreshold", 0).Number(1, 1_000_000); ok {
		wait := time.Duration(n) * ready.Period
		if n, ok := f.Get("initialDelayInSeconds", 0).Number(0, 1_000_000); ok {
			wait += time.Duration(n) * time.Second
		}
		r.job.ReadyTimeout = min(max(r.job.ReadyTimeout, wait), jobfile.MaxTimeout)
		f.note("failureThreshold", "becomes ready_timeout, within which all members have to be ready: %s, of which fetching images is part", jobfile.Duration(r.job.ReadyTimeout))
	}
	if len(ready.Command) == 0 && !r.Broken() {
		f.Of.Find(yamlfile.Broken, "%s has no command: write one that ends with 0 when the node is up", f.Of.Name)
	}
	return ready
}

// readStorage reads a file system or bucket that all nodes have.
func readStorage(r *reader, v yamlfile.Value) {
	f := r.fields(v, "storageType", "destinationDirectoryName", "destinationPath", "mountTargetId", "exportId", "namespace", "bucket", "prefix")
	if f == nil {
		return
	}
	source, target := text(f.Get("bucket", 0)), text(f.Get("destinationDirectoryName", yamlfile.Broken))
	if source == "" { // IDs of Oracle's: the folder's name says more
		source = target
	}
	if at := text(f.Get("destinationPath", 0)); at != "" {
		target = strings.TrimSuffix(at, "/") + "/" + target
	}
	f.ignore("each host's policy says which folder the volume is", "mountTargetId", "exportId", "namespace", "prefix")
	r.job.Volumes = r.mounted(f, source, target, r.job.Volumes)
}
