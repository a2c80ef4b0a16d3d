// Command kubelet-oracle answers what the kubelet's own admission code says.
package main

import (
	"bufio"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"time"

	"numa-admission/oracle/draw"
	"numa-admission/oracle/hollow"
	"numa-admission/oracle/judge"
	"numa-admission/oracle/kubelet"
	"numa-admission/oracle/record"
)

const usage = `usage:
  kubelet-oracle generate --seed N --cases M [--first K] [--profile small|wild|gpu8|podlevel] [--real-start]
  kubelet-oracle judge [--real-start] < cases.jsonl > verdicts.jsonl
  kubelet-oracle hollow --kubeconfig FILE --machine CLASSES.yaml [--machine ...] [--nodes N]
`

func main() {
	if err := run(os.Args[1:], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "kubelet-oracle:", err)
		os.Exit(1)
	}
}

func run(arguments []string, in io.Reader, out io.Writer) error {
	if len(arguments) == 0 {
		return errors.New("no command\n" + usage)
	}
	switch arguments[0] {
	case "generate":
		return generate(arguments[1:], out)
	case "judge":
		return judgeAll(arguments[1:], in, out)
	case "hollow":
		return hollowNodes(arguments[1:], out)
	case "version":
		_, err := fmt.Fprintln(out, record.KubeletVersion)
		return err
	}
	return fmt.Errorf("unknown command %q\n%s", arguments[0], usage)
}

func generate(arguments []string, out io.Writer) error {
	flags := flag.NewFlagSet("generate", flag.ContinueOnError)
	seed := flags.Uint64("seed", 1, "the same seed draws the same machines and steps")
	cases := flags.Int("cases", 100, "how many")
	first := flags.Int("first", 0, "number of the first case; each case is drawn on its own")
	profile := flags.String("profile", "small", "small, wild, gpu8 or podlevel")
	realStart := flags.Bool("real-start", false, "start the managers as a kubelet does")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	write, flush := lines(out)
	for number := *first; number < *first+*cases; number++ {
		c, err := draw.Case(*seed, number, *profile)
		if err != nil {
			return err
		}
		if err := judge.Case(c, kubelet.Options{RealStart: *realStart}); err != nil {
			return err
		}
		if err := write(c); err != nil {
			return err
		}
	}
	return flush()
}

func judgeAll(arguments []string, in io.Reader, out io.Writer) error {
	flags := flag.NewFlagSet("judge", flag.ContinueOnError)
	realStart := flags.Bool("real-start", false, "start the managers as a kubelet does")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	write, flush := lines(out)
	reader := bufio.NewReaderSize(in, 1<<20)
	for number := 1; ; number++ {
		line, err := reader.ReadBytes('\n')
		if len(line) > 1 {
			c := &record.Case{}
			if err := json.Unmarshal(line, c); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
			if err := judge.Case(c, kubelet.Options{RealStart: *realStart}); err != nil {
				return fmt.Errorf("line %d: %w", number, err)
			}
			if err := write(c); err != nil {
				return err
			}
			if err := flush(); err != nil { // an interactive caller waits for this answer
				return err
			}
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func hollowNodes(arguments []string, out io.Writer) error {
	options := hollow.Options{}
	flags := flag.NewFlagSet("hollow", flag.ContinueOnError)
	flags.StringVar(&options.Kubeconfig, "kubeconfig", os.Getenv("KUBECONFIG"), "how to reach the API server")
	flags.Func("machine", "file of machine classes; may be given several times", func(path string) error {
		options.Machines = append(options.Machines, path)
		return nil
	})
	flags.IntVar(&options.Nodes, "nodes", 0, "so many nodes, shared among the classes in proportion to their counts; 0: the counts themselves")
	flags.DurationVar(&options.StopDelay, "stop-delay", 200*time.Millisecond, "how long a deleted pod takes to stop; never longer than its grace period")
	flags.DurationVar(&options.LeaseDuration, "lease", 40*time.Second, "lease duration, renewed four times in it; 0: no leases")
	flags.BoolVar(&options.Events, "events", true, "write a Warning event for each refused pod")
	flags.BoolVar(&options.LogAll, "log-admitted", false, "a line for each admitted pod too")
	flags.BoolVar(&options.Topologies, "topologies", false, "write NodeResourceTopology objects (v1alpha2) where the CRD is there")
	flags.DurationVar(&options.TopologyDelay, "topology-delay", 2*time.Second, "how long after a change")
	flags.BoolVar(&options.DeleteNodes, "delete-nodes", false, "delete the Nodes at the end")
	if err := flags.Parse(arguments); err != nil {
		return err
	}
	return hollow.Run(options, out)
}

func lines(out io.Writer) (write func(any) error, flush func() error) {
	buffer := bufio.NewWriterSize(out, 1<<16)
	return json.NewEncoder(buffer).Encode, buffer.Flush
}
