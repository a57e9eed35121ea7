// Command quantityjudge tells what Kubernetes makes of quantities.
//
// It reads texts as JSON, a list of them a line, and answers each line with one: for each text null
// if it is no quantity, or its Value and MilliValue as texts. It ends with its input.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"

	"k8s.io/apimachinery/pkg/api/resource"
)

func main() {
	if err := answerAll(os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func answerAll(questions io.Reader, answers io.Writer) error {
	lines := bufio.NewReader(questions)
	encoder := json.NewEncoder(answers)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var texts []string
			if err := json.Unmarshal(line, &texts); err != nil {
				return err
			}
			amounts := make([]*[2]string, len(texts))
			for n, text := range texts {
				amounts[n] = amountsOf(text)
			}
			if err := encoder.Encode(amounts); err != nil {
				return err
			}
		}
		if err == io.EOF {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

func amountsOf(text string) *[2]string {
	quantity, err := resource.ParseQuantity(text)
	if err != nil {
		return nil
	}
	return &[2]string{
		strconv.FormatInt(quantity.Value(), 10), strconv.FormatInt(quantity.MilliValue(), 10),
	}
}
