# Two commands: `make book` builds the book, `make test` checks everything. `make help` lists the rest.
# A fresh machine needs Python 3.11 or newer and make; everything else goes into .venv.

PYTHON ?= $(shell for p in python3.13 python3.12 python3.11 python3 python; do \
	command -v $$p >/dev/null 2>&1 && $$p -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	2>/dev/null && { echo $$p; exit; }; done; echo python3)
RUN := .venv/bin/python
WORKERS ?= 2
ONE_THREAD := OMP_NUM_THREADS=1 MKL_NUM_THREADS=1 OPENBLAS_NUM_THREADS=1
PORT ?= 8000
CLOCK := start=$$(date +%s)
TOOK = echo "$(1): $$(( $$(date +%s) - start )) s"

.DEFAULT_GOAL := help
.PHONY: help install book html notebooks browser model test serve records records-lm picture pdf kernel weights bench lint clean

help:  ## list what can be made
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## */  make \1\t/' | expand -t 20

install:  ## set up .venv (nothing happens while requirements.txt is unchanged)
	@$(PYTHON) book/install.py

html: install
	@$(CLOCK); .venv/bin/jupyter-book build . -W -n --keep-going \
	  && $(call TOOK,book built)

book: html  ## build the book, make the notebooks, say where to open it
	@$(RUN) book/build_notebooks.py
	@echo "open _build/html/index.html in a browser, or run: make serve"

pdf: html browser  ## print the whole book into one file, _build/bayesian-wind-tunnel.pdf (minutes)
	@$(RUN) book/pdf.py

notebooks: book  ## make chapters/*.ipynb from chapters/*.md, with the numbers of the build

browser: install
	@$(RUN) book/browser.py

model: install  ## get the language model of two chapters (93 MB, once) and check its sum
	@$(RUN) book/model.py

# All three parts run whatever the others say; the command fails if one of them does.
test: html browser model  ## build the book, then run every check
	@$(CLOCK); $(MAKE) --no-print-directory lint; lint=$$?; \
	$(RUN) book/build_notebooks.py --check; stale=$$?; \
	$(ONE_THREAD) $(RUN) -m pytest tests -n $(WORKERS) --dist loadfile; tests=$$?; \
	$(call TOOK,tests); [ $$lint -eq 0 ] || echo "make lint failed"; \
	[ $$stale -eq 0 ] || echo "the notebooks are out of step"; \
	[ $$tests -eq 0 ] || echo "tests failed"; [ $$lint$$stale$$tests = 000 ]

serve: install  ## serve the built book on PORT (8000)
	@$(RUN) -m http.server $(PORT) --bind 127.0.0.1 --directory _build/html

records: install  ## compute anew what the chapters quote but do not run (long)
	@$(CLOCK); $(RUN) -c "from bayeswind_lib import ledger; print(*ledger.make_records(), sep=chr(10))" \
	  && $(call TOOK,records)

records-lm: model  ## measure the language model again (at most 8 minutes on two cores, 2 GiB)
	@$(CLOCK); $(RUN) -m bayeswind_lib language --record && $(call TOOK,records of the language model)

picture: install  ## draw README's and the landing page's picture from the shipped network
	@$(RUN) book/picture.py

kernel: install  ## compile the matrix product of the network in the page, after a change of matmul.wat
	@$(RUN) book/kernel.py

weights: html browser  ## weigh every page of the built book, and store the record behind the page
	@$(RUN) book/weights.py

bench: install browser  ## measure samplers, training steps and networks in the page here, and store the records behind the pages
	@$(RUN) -m bayeswind_lib bench --store
	@$(RUN) book/measure_engine.py

lint: install  ## style and spelling
	@$(RUN) -m ruff check .
	@.venv/bin/codespell

clean:  ## remove what was built (keeps .venv)
	rm -rf _build .pytest_cache .ruff_cache
