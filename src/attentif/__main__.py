"""`python -m attentif`, which torchrun needs: `torchrun --nproc-per-node 2 -m attentif train ...`."""

from attentif.cli.main import main

if __name__ == "__main__":  # processes started by this one import it again under another name
    main()
