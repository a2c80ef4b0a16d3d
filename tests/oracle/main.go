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

	"numa-admission/oracle/draw"
	"numa-admission/oracle/judge"
	"numa-admission/oracle/kubelet"
	"numa-admission/oracle/record"
)

const usage = `usage:
  kubelet-oracle generate --seed N --cases M [--first K] [--profile small|wild|gpu8|podlevel] [--real-start]
  kubelet-oracle judge [--real-start] < cases.jsonl > verdicts.jsonl
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

func lines(out io.Writer) (write func(any) error, flush func() error) {
	buffer := bufio.NewWriterSize(out, 1<<16)
	return json.NewEncoder(buffer).Encode, buffer.Flush
}
