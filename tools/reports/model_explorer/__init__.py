"""
An adapter for Google's Model Explorer, which shows graphs of models in a browser.

    pip install ai-edge-model-explorer
    model-explorer model.mlir --extensions=penstock.tools.reports.model_explorer

Model Explorer imports `main` of this package. `penstock-view --to-model-explorer`
writes the same as a file, which needs nothing to be installed beside Penstock.
"""
